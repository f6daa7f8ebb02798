"""Escapes untrusted text for Markdown.

An alert, a log line or a command must not create a heading, a link, a line of its own or an
outcome: it is escaped on one line, or shown as code.
"""

import re
import unicodedata

from hermes.core.foreign_text import MAX_TITLE_CHARS, visible_line, visible_text

_READ_FACTOR = 8
"""Only this many times the wanted length of a text is read: it may have megabytes."""
_MARKDOWN_CHARACTERS = re.compile(r"([\\`*_{}\[\]<>#|~!])")
_CLOCK_TIME = re.compile(r"(?<![\w.:\]])([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?(?![\w:])")
_BACKTICKS = re.compile(r"`+")
_WORD = re.compile(r"[a-z0-9]+")
MAX_SEARCHED_CHARS = 100_000


def escape_text(text: str, limit: int = MAX_TITLE_CHARS) -> str:
    """One line of escaped text."""
    return _MARKDOWN_CHARACTERS.sub(r"\\\1", visible_line(text, limit).replace("&", "&amp;"))


def without_clock_times(text: str) -> str:
    """For the timeline, where only the time of an entry may look like a time of day."""
    return _CLOCK_TIME.sub(lambda m: "\N{RATIO}".join(filter(None, m.groups())), text)


def telling_line(text: str, claim: str, limit: int) -> str:
    """The text where it is short; else its line that shares most words with the claim."""
    if len(text) <= limit:
        return text
    words = {word for word in _WORD.findall(claim) if len(word) > 2}
    lines = [line for line in text[:MAX_SEARCHED_CHARS].splitlines() if line.strip()]
    return max(lines, key=lambda line: len(words.intersection(_WORD.findall(line))), default=text)


def inline_code(text: str, limit: int = 160) -> str:
    """One line as code, in enough backticks."""
    line = visible_line(text, limit)
    return _in_backticks(line) if line else "(nothing)"


def command_block(text: str, *, max_chars: int = 380) -> str:
    """A command exactly as it ran; the mark of a truncation is outside the code."""
    shown = visible_text(text[: _READ_FACTOR // 2 * max_chars]).strip()
    if "\n" not in shown:
        return _in_backticks(shown[:max_chars]) + ("…" if len(shown) > max_chars else "")
    lines = shown[: max_chars * 3].split("\n")
    opening = script_excerpt(shown)
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(shown)), default=0))
    # Indented: no line of a script may become a heading.
    body = "\n".join(f"      {line}" for line in lines)
    more = "\n      …" if len(shown) > max_chars * 3 else ""
    return f"{opening}\n\n      {fence}sh\n{body}{more}\n      {fence}\n\n  "


def script_excerpt(script: str, limit: int = 120) -> str:
    """The first meaningful line of a script, and the number of its lines."""
    lines = visible_text(script[: _READ_FACTOR * limit]).strip().split("\n")
    telling = [line.strip() for line in lines if " " in line.strip() and line.strip()[0] != "#"]
    first = (telling or [lines[0].strip()])[0]
    rest = script.strip().count("\n")
    return _in_backticks(first[:limit].strip()) + (
        f" … (a script of {rest + 1} lines)" if rest else ""
    )


def slug(text: str, max_chars: int = 40) -> str:
    """The title for a file name."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    kept = ""
    for word in _WORD.findall(plain):
        if len(kept) + len(word) > max_chars:
            break
        kept = f"{kept}-{word}" if kept else word
    return kept or "incident"


def _in_backticks(line: str) -> str:
    longest = max(map(len, _BACKTICKS.findall(line)), default=0)
    if not longest:
        return f"`{line}`"
    ticks = "`" * (longest + 1)
    return f"{ticks} {line} {ticks}"
