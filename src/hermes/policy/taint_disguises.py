"""Takes off encodings, so that a command hidden in a log is known again when it is run.

Both sides are looked at: `base64 -d` of a word from a log says the same as what it decodes to.
Rot13 and text written backwards keep words apart, so they are undone word by word when an action is
looked at, and cost nothing while reading.
"""

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Iterator
from itertools import islice
from urllib.parse import unquote

from hermes.policy.taint_words import smuggled

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{20,}[ \t]*\r?\n[ \t]*)*[A-Za-z0-9+/_-]{8,}={0,2}")
_BASE32 = re.compile(r"\b[A-Z2-7]{16,}={0,6}")
_HEX = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{2}(?:[ :]?[0-9a-fA-F]{2}){4,}(?![0-9A-Za-z])")
_ESCAPES = re.compile(
    r"(?:\\+(?:x[0-9a-fA-F]{2}|u\{?00[0-9a-fA-F]{2}\}?|0?[0-7]{3})){2,}"
    r"|(?:0x[0-9a-fA-F]{2}[ ,]*){2,}"
)
_ESCAPE = re.compile(r"(?:\\+|0)(?:x([0-9a-fA-F]{2})|u\{?00([0-9a-fA-F]{2})\}?|0?([0-7]{3}))")
_CODES = re.compile(r"\b\d{2,3}(?:[ ,]+\d{2,3}){4,}\b")
_PERCENT = re.compile(r"[^\s%]{0,100}%[0-9a-fA-F]{2}\S{0,2000}")
_ENTITIES = re.compile(r"[^\n&]{0,100}&(?:#x[0-9a-fA-F]{1,6}|#[0-9]{1,7}|[a-z]{2,8});[^\n]{0,2000}")
_SPACED = re.compile(r"(?<![^\s\"'`])\S(?: {1,3}\S(?![^\s\"'`])){5,}")
_ENTITY = re.compile(r"&(?:#(x[0-9a-fA-F]{1,6}|[0-9]{1,7})|([a-z]{2,8}));")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'", "nbsp": " ", "sol": "/"}
_LAST_LETTER = 0x10FFFF
_GAP = re.compile(r" {2,}")
_MOST = 2_000
"""Pieces of one kind in one text that are tried."""
_SHORTEST = 5
_DEPTH = 3


def disguised(text: str, depth: int = _DEPTH) -> Iterator[str]:
    """Whatever readable text is hidden in this one, also in several layers."""
    for sign, pattern, decode in _KINDS:
        if sign not in text:
            continue
        for found in islice(dict.fromkeys(pattern.findall(text)), _MOST):
            for inside in filter(_readable, decode(found)):
                yield inside
                if depth > 1:
                    yield from disguised(inside, depth - 1)
    if not text.isascii() and (hidden := smuggled(text)):
        yield hidden


def spelled_in_escapes(text: str) -> bool:
    """Whether letters are written as escapes, which nothing does but to hide them.

    Bytes that are no letters are written so by every log.
    """
    found = (next(_escapes(each)) for each in set(_ESCAPES.findall(text)))
    return any(each.isascii() and each.replace(" ", "").isalpha() for each in found)


def turned(first: str, second: str) -> Iterator[tuple[str, str]]:
    """Two neighbouring words as they would stand in a text that is read in another way."""
    yield codecs.encode(first, "rot13"), codecs.encode(second, "rot13")
    yield _backwards(second), _backwards(first)


def turned_word(word: str) -> tuple[str, str]:
    return codecs.encode(word, "rot13"), _backwards(word)


def _backwards(word: str) -> str:
    """As it would have been read: a path then ends with a slash, which does not count."""
    return word[::-1].rstrip("/") or word


def _readable(text: str) -> bool:
    """Text rather than bytes that happen to decode."""
    if len(text) < _SHORTEST or not text.isascii():
        return False
    letters = sum(char.isalnum() or char in " /.-_\n" for char in text)
    return letters >= len(text) * 0.7 and all(char.isprintable() or char.isspace() for char in text)


def _base64(text: str) -> Iterator[str]:
    plain = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
    yield from _bytes(lambda: base64.b64decode(plain + "=" * (-len(plain) % 4)))


def _base32(text: str) -> Iterator[str]:
    plain = text.rstrip("=")
    yield from _bytes(lambda: base64.b32decode(plain + "=" * (-len(plain) % 8)))


def _hex(text: str) -> Iterator[str]:
    yield from _bytes(lambda: bytes.fromhex(text.replace(":", " ")))


def _bytes(decode: Callable[[], bytes]) -> Iterator[str]:
    try:
        yield decode().decode("ascii")
    except (binascii.Error, ValueError):
        return


def _escapes(text: str) -> Iterator[str]:
    codes = (int(a or b, 16) if a or b else int(c, 8) for a, b, c in _ESCAPE.findall(text))
    yield "".join(map(chr, codes))


def _codes(text: str) -> Iterator[str]:
    yield "".join(map(chr, map(int, re.findall(r"\d+", text))))


def _percent(text: str) -> Iterator[str]:
    yield unquote(text)
    yield unquote(text.replace("+", " "))


def _spaced(text: str) -> Iterator[str]:
    """`t o u c h   / x`: letter by letter, words by wider gaps."""
    yield " ".join(part.replace(" ", "") for part in _GAP.split(text))


def _entities(text: str) -> Iterator[str]:
    yield _ENTITY.sub(_letter, text)


def _letter(entity: re.Match[str]) -> str:
    number, name = entity.groups()
    if name:
        return _NAMED.get(name, entity.group())
    code = int(number[1:], 16) if number[0] == "x" else int(number)
    return chr(code) if code <= _LAST_LETTER else "?"


_KINDS: tuple[tuple[str, re.Pattern[str], Callable[[str], Iterator[str]]], ...] = (
    ("", _BASE64, _base64),
    ("", _BASE32, _base32),
    ("", _HEX, _hex),
    ("", _ESCAPES, _escapes),
    ("", _CODES, _codes),
    ("%", _PERCENT, _percent),
    (" ", _SPACED, _spaced),
    ("&", _ENTITIES, _entities),
)
"""A character without which there is none of it, how it looks, how it is read."""
