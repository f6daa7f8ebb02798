"""Text that was packed so that nobody reads it: unpacked here, and looked at like any other."""

import base64
import binascii
import codecs
import re
from collections.abc import Iterator
from urllib.parse import unquote

MOST = 200
_BASE64 = re.compile(
    r"(?<![\w+/=-])[A-Za-z0-9+/_-]{20,}={0,2}(?:\s*\n\s*[A-Za-z0-9+/_-]{4,}={0,2})*"
)
_HEX = re.compile(r"(?:\\x[0-9a-fA-F]{2}){6,}|(?<![\w])(?:[0-9a-fA-F]{2}){16,}(?![\w])")
_NUMBERS = re.compile(r"(?:\b\d{2,3}\b\s*,\s*){8,}\d{2,3}\b")
_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2}|[\w.-]){12,}")
_ROT = re.compile(
    r"\b(?:vzcbeg|heyyvo|fhocebprff|uggcf?://|phey |jtrg |riny\(|vtaber (?:nyy|cerivbhf)|onfu -)",
    re.IGNORECASE,
)
_BACKWARDS = re.compile(
    r"//:s?ptth|\btropmi\b|\btekcos\b|ssecorpbus|\bmetsys\b|\blave\b|\bcexe\b|snoitcurtsni|"
    r"\| *lruc|hsab *\|",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"data:(?:image|font|audio|video)/[\w.+-]+;base64,|sha(?:256|384|512)-|integrity|ssh-(?:rsa|ed25519)|AAAA[BC]3",
    re.IGNORECASE,
)


def unpacked(text: str) -> Iterator[tuple[int, str]]:
    """Readable texts that are hidden in this one, with the line on which each begins."""
    for count, found in enumerate(_BASE64.finditer(text)):
        before = text[max(0, found.start() - 60) : found.start()]
        if count < MOST and not _HARMLESS.search(before + found[0][:8]):
            yield from _readable(text, found, _from_base64(found[0]))
    for found in _HEX.finditer(text):
        yield from _readable(text, found, _from_hex(found[0]))
    for found in _NUMBERS.finditer(text):
        numbers = [int(each) for each in re.findall(r"\d+", found[0])]
        if all(9 <= number < 127 for number in numbers):
            yield from _readable(text, found, bytes(numbers))
    for found in _PERCENT.finditer(text):
        if found[0].count("%") > 5:
            yield from _readable(text, found, unquote(found[0]).encode())
    yield from _turned(text)


def _turned(text: str) -> Iterator[tuple[int, str]]:
    """Letters moved by thirteen, or written backwards."""
    if found_rot := _ROT.search(text):
        yield text.count("\n", 0, found_rot.start()) + 1, codecs.encode(text, "rot13")
    if turned := _BACKWARDS.search(text):
        line = text.count("\n", 0, turned.start())
        for each in text.split("\n")[line : line + 3]:
            yield line + 1, each[::-1]


def _readable(text: str, found: re.Match[str], data: bytes) -> Iterator[tuple[int, str]]:
    for way in ("utf-8", "utf-16-le"):
        try:
            shown = data.decode(way)
        except UnicodeDecodeError:
            continue
        letters = sum(letter.isprintable() or letter in "\n\t\r" for letter in shown)
        if len(shown) >= 6 and letters >= 0.95 * len(shown) and shown.isascii():
            yield text.count("\n", 0, found.start()) + 1, shown
            return


def _from_base64(text: str) -> bytes:
    plain = "".join(text.split()).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4))
    except (binascii.Error, ValueError):
        return b""


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text.replace("\\x", ""))
    except ValueError:
        return b""
