"""A small face that shows that somebody is at work, and for how long."""

from hermes.cli.render_lines import duration
from hermes.cli.render_safe import clip

FACES = ("(◕‿◕)", "(◕ᴗ◕)", "(◔‿◔)", "(◕‿◕)", "(-‿-)", "(◕‿◕)")
HANDS = ("✧", "･", "✦", "･")
STEP = 0.2
"""Seconds that one face stays."""


def spin(doing: str, elapsed: float, width: int) -> str:
    """One frame, or nothing when nobody is at work."""
    if not doing:
        return ""
    frame = int(elapsed / STEP)
    face, hand = FACES[frame // 2 % len(FACES)], HANDS[frame % len(HANDS)]
    took = duration(elapsed) if elapsed >= 10 else f"{int(elapsed)} s"
    return f"{hand} {face} {clip(doing, max(width - 20, 8))} · {took}"
