"""Normalizes texts into words that can be compared, and decodes hidden text.

Removes case, quotes, escapes, colours, and invisible and look-alike letters, in the same way for
texts that were read and for actions.
"""

import base64
import binascii
import codecs
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from urllib.parse import unquote

from hermes.policy.commands.effects import word_set

MAX_TEXT_CHARS = 1_000_000
"""Characters of one text that are processed."""

_WORD = re.compile(r"[^\s;|&<>(){}\[\],=]+")
_QUOTES = str.maketrans("", "", "\"'`\\")
_EDGE_CHARACTERS = ".:!?*_#$«»“”„…"
_ESCAPED_BREAK = re.compile(r"\\+[nrt](?![a-z]{0,2}\b[:\\])")
_STRING_CONCATENATION = re.compile(r"""(["'])\s{0,3}(?:(?:\+|\.|\|\|)\s{0,3})?\1""")
_TERMINAL_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][AB0]|\x1b[=>78cDEHM]")
_TERMINAL_TITLE = re.compile(r"\x1b\][0-9]*;?([^\x07\x1b]*)(?:\x07|\x1b\\)")
_BACKSPACED_CHARACTER = re.compile(r"[^\x08]\x08")
_MAX_BACKSPACE_PASSES = 8
_SCRIPT_CHANGE = re.compile(r"(?<=[⺀-鿿가-힯぀-ヿ])(?=[!-~])|(?<=[!-~])(?=[⺀-鿿가-힯぀-ヿ])")
_CONFUSABLES = str.maketrans(
    "аеорсухіјѕԁɡһкмтвнԝѵοαενικτρυχωℓ‐‑‒–—−∕⁄／＼‘’‚‛“”„‟′″",
    "aeopcyxijsdghkmtbhwvoaevikтpyxwl------////''''\"\"\"\"'\"".replace("т", "t"),
)
ADDRESS_WORD = re.compile(r"^(?:[a-z][a-z0-9+.-]*://\S{3,}|[\w.+-]+@[\w-]+\.[\w.-]+)$")
DISTINCTIVE_WORD = re.compile(r"[/@~\d]|\w\.\w|\w{16}|\w[-_]\w")
"""A path, a number, a host, or a compound name."""

_SHORT_WORD = re.compile(r"[\w.:+-]{1,2}|\w[.:-]\w|\d{1,3}\.\d{1,3}")
"""`g1`, `0.2`: words that occur in every text by chance."""


def is_short(word: str) -> bool:
    return _SHORT_WORD.fullmatch(word) is not None


def is_distinctive(word: str) -> bool:
    return DISTINCTIVE_WORD.search(word) is not None and not is_short(word)


def normalized_words(text: str) -> list[str]:
    """The words in lower case, without quotes and options."""
    plain = _ESCAPED_BREAK.sub(" ", normalize_text(text)) if "\\" in text else normalize_text(text)
    return split_words(plain)


def split_words(plain: str) -> list[str]:
    found = (
        word.strip(_EDGE_CHARACTERS).rstrip("/") or word
        for word in _WORD.findall(plain.translate(_QUOTES))
    )
    return [word for word in found if word[0] != "-" and not word.isspace()]


def normalize_text(text: str) -> str:
    """The visible text in lower case, with line ends and quotes."""
    text = text[:MAX_TEXT_CHARS]
    if "\x1b" in text:
        text = _TERMINAL_ESCAPE.sub("", _TERMINAL_TITLE.sub(r" \1 ", text))
    for _ in range(_MAX_BACKSPACE_PASSES if "\x08" in text else 0):
        text = _BACKSPACED_CHARACTER.sub("", text)
    if not text.isascii():
        text = _SCRIPT_CHANGE.sub(" ", _to_ascii(text))
    return text.lower()


def join_string_pieces(text: str) -> str:
    """Joins string literals that code would concatenate: 'to' + 'uch'."""
    return _STRING_CONCATENATION.sub("", text)


def invisible_text(text: str) -> str:
    """Letters that are not displayed but that a model reads."""
    hidden = [char for char in text if "\U000e0020" <= char <= "\U000e007e"]
    return "".join(chr(ord(char) - 0xE0000) for char in hidden)


def has_foreign_letters(line: str) -> bool:
    """Return whether it has letters of a language whose instructions are not recognized."""
    return not line.isascii() and any(char.isalpha() and ord(char) > 127 for char in line)


def parent_paths(word: str) -> Iterator[str]:
    """The path and its parent folders, without those directly below the root."""
    while word.count("/") > 2:
        word = word.rpartition("/")[0]
        yield word


def host_of_address(address: str) -> str:
    return address.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]


def _to_ascii(text: str) -> str:
    text = unicodedata.normalize("NFKC", text)
    odd = {ord(char): None for char in set(text) if ord(char) > 127 and _is_invisible(char)}
    return text.translate(odd).translate(_CONFUSABLES) if odd else text.translate(_CONFUSABLES)


@lru_cache(maxsize=4096)
def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in ("Cf", "Mn", "Me", "Co", "Cs")


_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{20,}[ \t]*\r?\n[ \t]*)*[A-Za-z0-9+/_-]{8,}={0,2}")
_BASE32 = re.compile(r"\b[A-Z2-7]{16,}={0,6}")
_HEX = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{2}(?:[ :]?[0-9a-fA-F]{2}){4,}(?![0-9A-Za-z])")
_ESCAPES = re.compile(
    r"(?:\\+(?:x[0-9a-fA-F]{2}|u\{?00[0-9a-fA-F]{2}\}?|0?[0-7]{3})){2,}"
    r"|(?:0x[0-9a-fA-F]{2}[ ,]*){2,}"
)
_ESCAPE = re.compile(r"(?:\\+|0)(?:x([0-9a-fA-F]{2})|u\{?00([0-9a-fA-F]{2})\}?|0?([0-7]{3}))")
_CHARACTER_CODES = re.compile(r"\b\d{2,3}(?:[ ,]+\d{2,3}){4,}\b")
_PERCENT = re.compile(r"[^\s%]{0,100}%[0-9a-fA-F]{2}\S{0,2000}")
_ENTITIES = re.compile(r"[^\n&]{0,100}&(?:#x[0-9a-fA-F]{1,6}|#[0-9]{1,7}|[a-z]{2,8});[^\n]{0,2000}")
_SPACED_LETTERS = re.compile(r"(?<![^\s\"'`])\S(?: {1,3}\S(?![^\s\"'`])){5,}")
_ENTITY = re.compile(r"&(?:#(x[0-9a-fA-F]{1,6}|[0-9]{1,7})|([a-z]{2,8}));")
_NAMED_ENTITIES = {
    "lt": "<",
    "gt": ">",
    "amp": "&",
    "quot": '"',
    "apos": "'",
    "nbsp": " ",
    "sol": "/",
}
_MAX_CODE_POINT = 0x10FFFF
_WORD_GAP = re.compile(r" {2,}")
_MAX_PIECES_PER_KIND = 2_000
"""Encoded parts of one kind in one text that are decoded."""
_MIN_HIDDEN_CHARS = 5
_MAX_LAYERS = 3


def decode_hidden_texts(text: str, depth: int = _MAX_LAYERS) -> Iterator[str]:
    """The readable texts that are encoded in this one, also in several layers."""
    for sign, pattern, decode in _DECODERS:
        if sign not in text:
            continue
        for found in islice(dict.fromkeys(pattern.findall(text)), _MAX_PIECES_PER_KIND):
            for inside in filter(_is_readable, decode(found)):
                yield inside
                if depth > 1:
                    yield from decode_hidden_texts(inside, depth - 1)
    if not text.isascii() and (hidden := invisible_text(text)):
        yield hidden


def is_spelled_in_escapes(text: str) -> bool:
    """Return whether letters are written as escapes, which is done only to hide them.

    Logs write only other bytes as escapes.
    """
    found = (next(_decode_escapes(each)) for each in set(_ESCAPES.findall(text)))
    return any(each.isascii() and each.replace(" ", "").isalpha() for each in found)


def reversed_pairs(first: str, second: str) -> Iterator[tuple[str, str]]:
    """Two adjacent words as they would appear in a reversed text."""
    yield codecs.encode(first, "rot13"), codecs.encode(second, "rot13")
    yield _reverse(second), _reverse(first)


def reversed_words(word: str) -> tuple[str, str]:
    return codecs.encode(word, "rot13"), _reverse(word)


def _reverse(word: str) -> str:
    """The reversed word; a path then ends with a slash, which is removed."""
    return word[::-1].rstrip("/") or word


def _is_readable(text: str) -> bool:
    """Return whether it is text, and not random bytes that can be decoded."""
    if len(text) < _MIN_HIDDEN_CHARS or not text.isascii():
        return False
    letters = sum(char.isalnum() or char in " /.-_\n" for char in text)
    return letters >= len(text) * 0.7 and all(char.isprintable() or char.isspace() for char in text)


def _decode_base64(text: str) -> Iterator[str]:
    plain = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
    yield from _decode_bytes(lambda: base64.b64decode(plain + "=" * (-len(plain) % 4)))


def _decode_base32(text: str) -> Iterator[str]:
    plain = text.rstrip("=")
    yield from _decode_bytes(lambda: base64.b32decode(plain + "=" * (-len(plain) % 8)))


def _decode_hex(text: str) -> Iterator[str]:
    yield from _decode_bytes(lambda: bytes.fromhex(text.replace(":", " ")))


def _decode_bytes(decode: Callable[[], bytes]) -> Iterator[str]:
    try:
        yield decode().decode("ascii")
    except (binascii.Error, ValueError):
        return


def _decode_escapes(text: str) -> Iterator[str]:
    codes = (int(a or b, 16) if a or b else int(c, 8) for a, b, c in _ESCAPE.findall(text))
    yield "".join(map(chr, codes))


def _decode_codes(text: str) -> Iterator[str]:
    yield "".join(map(chr, map(int, re.findall(r"\d+", text))))


def _decode_percent(text: str) -> Iterator[str]:
    yield unquote(text)
    yield unquote(text.replace("+", " "))


def _join_spaced_letters(text: str) -> Iterator[str]:
    """`t o u c h   / x`: separate letters, with wider gaps between words."""
    yield " ".join(part.replace(" ", "") for part in _WORD_GAP.split(text))


def _decode_entities(text: str) -> Iterator[str]:
    yield _ENTITY.sub(_entity_character, text)


def _entity_character(entity: re.Match[str]) -> str:
    number, name = entity.groups()
    if name:
        return _NAMED_ENTITIES.get(name, entity.group())
    code = int(number[1:], 16) if number[0] == "x" else int(number)
    return chr(code) if code <= _MAX_CODE_POINT else "?"


_DECODERS: tuple[tuple[str, re.Pattern[str], Callable[[str], Iterator[str]]], ...] = (
    ("", _BASE64, _decode_base64),
    ("", _BASE32, _decode_base32),
    ("", _HEX, _decode_hex),
    ("", _ESCAPES, _decode_escapes),
    ("", _CHARACTER_CODES, _decode_codes),
    ("%", _PERCENT, _decode_percent),
    (" ", _SPACED_LETTERS, _join_spaced_letters),
    ("&", _ENTITIES, _decode_entities),
)
"""For each encoding: a required character, its pattern, and its decoder."""


_FUNCTION_WORDS = word_set(
    "the a an is are be been was were to of in on at by for with from it its this that these those "
    "not no and or if so has have had will may can as into until unless when while once any all "
    "nobody who which what you your we our us i me my they them their there here but because per "
    "still only just also then than how why where"
)
_MIN_SENTENCE_WORDS, _MIN_SENTENCE_WORDS_WITH_FUNCTION_WORD = 4, 3
"""The number of plain words of a sentence; fewer with a function word."""
_SENTENCE_BREAK = re.compile(r"[.;!?]\s+|\"\s*,\s*\"|'\s*,\s*'|\"\s+(?=\w+=)|\s\|\s|\n")
_FIRST_COLUMN = re.compile(r"^\W*(\S+)(?:\t| {2,})")
_ORDINARY_WORD = re.compile(r"(?:(?<=\s)|^)[\"'(]?([^\W\d_]{2,})[\"'),:]*(?=\s|$)")
_ERROR_BEFORE = re.compile(
    r"(?:cannot|can not|can't|could not|couldn't|failed (?:to|at)|unable to|denied|refused"
    r"|missing|unknown|invalid|corrupt(?:ed)?|conflict in|no such|not found|held by|can't open"
    r"|undefined|exception|panicked|probe failed|back-off|parsing|file \")"
    r"\W+(?:[\w()'=-]+\W+){0,4}?\W*\Z"
)
_ERROR_AFTER = re.compile(
    r"\W*(?:line \d+|(?:\S+ ){0,2}?(?:failed|fails|not found|no such|denied|exists|refused"
    r"|timed out|exited|killed|does not|doesn't|cannot|could not|can't|is full|in use|unknown"
    r"|invalid|corrupt|unreachable|unhealthy|degraded|read-only|too many|lookup|bind|dial|bad top"
    r"|connect:|back-off|notready))"
)
_ERROR_DISTANCE_CHARS = 60


def words_in_statements(plain: str) -> Iterator[str]:
    """Distinctive words of sentences that are no error messages; `plain` is in lower case."""
    for piece in _SENTENCE_BREAK.split(plain):
        if _is_sentence(piece):
            yield from _words_in_statement(piece)


def _is_sentence(piece: str) -> bool:
    plain = set(_ORDINARY_WORD.findall(piece))
    return len(plain) >= _MIN_SENTENCE_WORDS or (
        len(plain) >= _MIN_SENTENCE_WORDS_WITH_FUNCTION_WORD
        and not plain.isdisjoint(_FUNCTION_WORDS)
    )


def _words_in_statement(piece: str) -> Iterator[str]:
    column = _FIRST_COLUMN.match(piece)
    for word in set(split_words(piece)):
        if not DISTINCTIVE_WORD.search(word):
            continue
        position = piece.find(word)
        if position < 0 or not (
            _is_in_error_message(piece, position, position + len(word)) or _is_column(column, word)
        ):
            yield word
            yield host_of_address(word) if "://" in word else word.rpartition("/")[2] or word


def _is_column(column: re.Match[str] | None, word: str) -> bool:
    return column is not None and word in column.group(1)


def _is_in_error_message(piece: str, start: int, end: int) -> bool:
    before = piece[max(0, start - _ERROR_DISTANCE_CHARS) : start]
    return _ERROR_BEFORE.search(before) is not None or _ERROR_AFTER.match(piece, end) is not None
