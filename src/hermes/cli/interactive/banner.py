"""The greeting: who answers, where commands run, what there is to work with."""

from hermes.cli.interactive.shapes import Facts
from hermes.cli.render_ink import Ink
from hermes.cli.render_safe import cells, clean, clip

WIDEST = 100
NAMES = 2
"""Rows of tool or skill names before the rest is only counted."""


def banner(facts: Facts, *, run: str, width: int, ink: Ink) -> str:
    """No row is wider than `width`; a terminal that tells none counts as 80 columns."""
    room = min(width if width > 0 else 80, WIDEST)
    title = f" ☤ Hermes {facts.version} "
    rows = [
        ink.bold(ink.yellow(clip(title, room))),
        *_fact("model", facts.model, room, ink),
        *_fact("folder", _short_path(facts.directory, room - 9), room, ink),
        *_fact("place", facts.place, room, ink),
        *_names("tools", [name for name, _ in facts.tools], room, ink),
        *_names("skills", [name for name, _ in facts.skills], room, ink),
        *_fact("session", run, room, ink),
        ink.dim(clip("/help for commands · Alt-Enter for a new line · Ctrl-C stops", room)),
    ]
    return "\n".join(rows)


def _fact(label: str, value: str, room: int, ink: Ink) -> list[str]:
    text = clip(clean(value), room - 9)
    return [f"{ink.dim(label.ljust(8))} {text}"] if text else []


def _names(label: str, names: list[str], room: int, ink: Ink) -> list[str]:
    if not names:
        return [f"{ink.dim(label.ljust(8))} none"]
    rows, shown = [f"{len(names)}:"], 0
    for name in map(clean, sorted(names)):
        if cells(rows[-1]) + 1 + cells(name) <= room - 9:
            rows[-1] += f" {name}"
        elif len(rows) < NAMES and cells(name) <= room - 9:
            rows.append(name)
        else:
            break
        shown += 1
    if shown < len(names):
        rows[-1] = clip(rows[-1], room - 20) + f" +{len(names) - shown} more"
    labels = [ink.dim(label.ljust(8)), *[" " * 8] * (len(rows) - 1)]
    return [f"{left} {row}" for left, row in zip(labels, rows, strict=True)]


def _short_path(path: str, room: int) -> str:
    """The end of a long path tells more than its beginning."""
    while cells(path) > max(room, 10) and "/" in path.lstrip("…/"):
        path = "…/" + path.lstrip("…/").split("/", 1)[1]
    return path
