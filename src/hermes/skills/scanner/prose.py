"""What a foreign skill says to the agent that reads it."""

import re
from collections.abc import Iterator

from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.hidden_text import plain
from hermes.skills.scanner.signs import signs

_COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
_UNSEEN = re.compile(
    r"display\s*:\s*none|font-size\s*:\s*0|visibility\s*:\s*hidden|opacity\s*:\s*0(?!\.)|"
    r"color\s*:\s*(?:white|#fff(?:fff)?)\b|<details hidden|aria-hidden=.true|hidden>|"
    r"^\[(?://|comment|_|hidden|note)\]:\s*(?:#|<>)",
    re.IGNORECASE | re.MULTILINE,
)
_ADDRESSED = re.compile(
    r"\b(?:assistants?|agents?|ai|llms?|claude|gpt|hermes|you must|you should|"
    r"when you (?:see|read)|"
    r"run|execute|fetch|curl|send|follow|ignore|note to|instruction)\b",
    re.IGNORECASE,
)
_ORDERED = re.compile(
    r"\b(?:assistants?|agents?|llms?|ai|models?)\s+(?:must|shall|should|are to|have to)\b",
    re.IGNORECASE,
)
_DOES = (
    "run", "execut", "fetch", "follow", "install", "download", "delete", "send", "upload", "do",
    "turn off", "disable", "switch off", "deactivate", "stop", "suspend", "mute", "clear",
    "ignore", "disregard", "bypass", "skip", "override", "pretend", "ask", "request", "collect",
)  # fmt: skip
_LONG = re.compile(r"[^\n]{2000}")
"""No sentence is that long; patterns over endless lines would take for ever."""
_FORBIDS = re.compile(
    r"\b(?:never|not|don't|avoid)\b(?!\s+(?:hesitate|forget|fail|stop|wait))[^.\n]{0,40}$"
)
_PUT = re.compile(
    r"\b(?:say|write|answer|reply|respond|add|append|insert|put|include|embed|print|obey|follow|"
    r"paste|tell|note|remember|store|state|instructions?|orders?|message)\b[^\"`“«]{0,60}[\"`“«][^\"`“«]*$"
)
"""What is quoted in order to be said or kept is meant."""
_QUOTED = re.compile(r"\"[^\"\n]*\"|`[^`\n]*`|“[^”\n]*”")
_QUOTES = "\"'`“”‘’«»"


def look_at_prose(file: str, text: str) -> Iterator[Finding]:
    lowered = _LONG.sub("\\g<0>\n", plain(text).casefold())
    for sign in (*signs("prose", "orders"), *signs("prose", "foreign_orders")):
        for found in sign.pattern.finditer(lowered):
            line = lowered.count("\n", 0, found.start()) + 1
            shown = _only_shown(lowered, found)
            yield _said(file, line, f"{sign.cause}: {_short(found[0])}", blocks=not shown)
            if not shown:
                break
    yield from _unseen(file, text)


def _unseen(file: str, text: str) -> Iterator[Finding]:
    for found in _COMMENT.finditer(text):
        inside = found[1]
        line = text.count("\n", 0, found.start()) + 1
        if _ORDERED.search(inside) or len(_ADDRESSED.findall(inside)) >= 2:
            cause = f"a comment that nobody sees speaks to the reader: {_short(inside)}"
            yield _said(file, line, cause)
    for found in _UNSEEN.finditer(text):
        around = text[found.start() : found.start() + 400]
        line = text.count("\n", 0, found.start()) + 1
        if len(_ADDRESSED.findall(around)) >= 2:
            yield _said(file, line, "text that is made not to be seen speaks to the reader")


def _only_shown(text: str, found: re.Match[str]) -> bool:
    """A quotation that is spoken of, as in a text about attacks, and not an order."""
    start, end = found.span()
    if re.match(r"(?:do not|don't|never)\b.{0,60}\b(?:without|unless|until|before)\b", found[0]):
        return True
    if re.search(r"\b(?:fails?|breaks?|stops?|dies|goes wrong|crash\w*)\s*$", text[:start][-16:]):
        return True
    if found[0].startswith(_DOES) and _FORBIDS.search(text[max(0, start - 60) : start]):
        return True
    begin = text.rfind("\n", 0, start) + 1
    before = text[begin:start]
    after = text[end : end + 40].partition("\n")[0]
    opened = any(before.count(mark) % 2 for mark in '"`') or before.rfind("“") > before.rfind("”")
    told = opened and any(mark in after for mark in '"`”') and "://" not in found[0]
    if told and not _PUT.search(before) and _words_around(text, begin, end) > 2:
        return True
    quoted = before[-1:] in tuple(_QUOTES) and any(mark in after for mark in _QUOTES)
    around = text[max(0, start - 160) : start]
    return quoted and bool(signs("prose", "soft")[0].pattern.search(around))


def _words_around(text: str, begin: int, end: int) -> int:
    """How much the line says besides what it quotes."""
    line = text[begin:end] + text[end : end + 200].partition("\n")[0]
    return len(re.findall(r"\w{2,}", _QUOTED.sub("", line)))


def _said(file: str, line: int, cause: str, *, blocks: bool = True) -> Finding:
    return Finding(kind="prose", file=file, line=line, cause=cause, blocks=blocks)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return repr(words if len(words) <= 80 else f"{words[:79]}…")
