"""Texts as words that can be compared, whatever clothes they came in.

Case, quotes, escapes, colours, invisible and look-alike letters are taken off here, the same way
for what was read and for what is about to be done.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

LONGEST = 1_000_000
"""Characters of one text that are looked at."""

_WORD = re.compile(r"[^\s;|&<>(){}\[\],=]+")
_QUOTES = str.maketrans("", "", "\"'`\\")
_EDGES = ".:!?*_#$«»“”„…"
_ESCAPED_BREAK = re.compile(r"\\+[nrt](?![a-z]{0,2}\b[:\\])")
_JOINED = re.compile(r"""(["'])\s{0,3}(?:(?:\+|\.|\|\|)\s{0,3})?\1""")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][AB0]|\x1b[=>78cDEHM]")
_TITLE = re.compile(r"\x1b\][0-9]*;?([^\x07\x1b]*)(?:\x07|\x1b\\)")
_RUBBED_OUT = re.compile(r"[^\x08]\x08")
_PASSES = 8
_BESIDE = re.compile(r"(?<=[⺀-鿿가-힯぀-ヿ])(?=[!-~])|(?<=[!-~])(?=[⺀-鿿가-힯぀-ヿ])")
_LOOKS_LIKE = str.maketrans(
    "аеорсухіјѕԁɡһкмтвнԝѵοαενικτρυχωℓ‐‑‒–—−∕⁄／＼‘’‚‛“”„‟′″",
    "aeopcyxijsdghkmtbhwvoaevikтpyxwl------////''''\"\"\"\"'\"".replace("т", "t"),
)
ADDRESS = re.compile(r"^(?:[a-z][a-z0-9+.-]*://\S{3,}|[\w.+-]+@[\w-]+\.[\w.-]+)$")
TELLING = re.compile(r"[/@~\d]|\w\.\w|\w{16}|\w[-_]\w")
"""What makes a word more than a word: a path, a number, a host, a name put together."""

_SHORT = re.compile(r"[\w.:+-]{1,2}|\w[.:-]\w|\d{1,3}\.\d{1,3}")
"""`g1`, `0.2`: what stands in every text by chance."""


def is_short(word: str) -> bool:
    return _SHORT.fullmatch(word) is not None


def is_telling(word: str) -> bool:
    return TELLING.search(word) is not None and not is_short(word)


def words_of(text: str) -> list[str]:
    """In lower case, without quotes and options: the same wish in other clothes."""
    plain = _ESCAPED_BREAK.sub(" ", plain_of(text)) if "\\" in text else plain_of(text)
    return split(plain)


def split(plain: str) -> list[str]:
    found = (
        word.strip(_EDGES).rstrip("/") or word for word in _WORD.findall(plain.translate(_QUOTES))
    )
    return [word for word in found if word[0] != "-" and not word.isspace()]


def plain_of(text: str) -> str:
    """The text as a reader sees it, in lower case; line ends and quotes are still there."""
    text = text[:LONGEST]
    if "\x1b" in text:
        text = _COLOUR.sub("", _TITLE.sub(r" \1 ", text))
    for _ in range(_PASSES if "\x08" in text else 0):
        text = _RUBBED_OUT.sub("", text)
    if not text.isascii():
        text = _BESIDE.sub(" ", _in_ascii(text))
    return text.lower()


def joined(text: str) -> str:
    """With string pieces put together that code would put together: 'to' + 'uch'."""
    return _JOINED.sub("", text)


def smuggled(text: str) -> str:
    """Letters that no screen shows and a model still reads."""
    hidden = [char for char in text if "\U000e0020" <= char <= "\U000e007e"]
    return "".join(chr(ord(char) - 0xE0000) for char in hidden)


def foreign(line: str) -> bool:
    """Whether it has letters of a language whose orders we may not know."""
    return not line.isascii() and any(char.isalpha() and ord(char) > 127 for char in line)


def parents(word: str) -> Iterator[str]:
    """The folders a path is in, down from itself, but none right below the root."""
    while word.count("/") > 2:
        word = word.rpartition("/")[0]
        yield word


def host_of(address: str) -> str:
    return address.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]


def _in_ascii(text: str) -> str:
    text = unicodedata.normalize("NFKC", text)
    odd = {ord(char): None for char in set(text) if ord(char) > 127 and _unseen(char)}
    return text.translate(odd).translate(_LOOKS_LIKE) if odd else text.translate(_LOOKS_LIKE)


@lru_cache(maxsize=4096)
def _unseen(char: str) -> bool:
    return unicodedata.category(char) in ("Cf", "Mn", "Me", "Co", "Cs")
