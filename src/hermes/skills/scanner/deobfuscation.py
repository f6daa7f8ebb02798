"""Finds hidden characters, normalizes text, decodes it, and undoes string tricks in shell."""

import base64
import binascii
import codecs
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from urllib.parse import unquote

from hermes.skills.scanner.finding import ScanFinding, line_number
from hermes.skills.scanner.patterns import may_match
from hermes.skills.scanner.reading_limits import is_document, is_reference

_BIDI_CONTROLS = frozenset(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c\u200e\u200f"
)
_DIRECTION_OVERRIDES = frozenset("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")
_INVISIBLE_CHARACTERS = frozenset(
    "\u200b\u2060\u2061\u2062\u2063\u2064\u180e\u00ad\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5"
    "\u206a\u206b\u206c\u206d\u206e\u206f\ufff9\ufffa\ufffb"
)
_SOFT_HYPHEN = "\u00ad"
"""Word processors leave it in a word that may be broken at the end of a line."""
_MISPLACED_HYPHEN = re.compile(rf"{_SOFT_HYPHEN}(?![^\W\d_])|(?<![^\W\d_]){_SOFT_HYPHEN}")
_INVISIBLE = "invisible characters inside the text"
MAX_STRAY_CHARACTERS = 8
_JOINERS = frozenset("\u200c\u200d")
_INVISIBLE_CHARACTER = re.compile(f"[{''.join(sorted(_INVISIBLE_CHARACTERS))}]")
_REMOVED_CHARACTER = re.compile(
    f"[{''.join(sorted(_INVISIBLE_CHARACTERS | _BIDI_CONTROLS | _JOINERS))}]"
)
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f]|\r(?!\n)")
_HIDDEN_CHARACTER = re.compile(
    rf"{_CONTROL_CHARACTER.pattern}|[\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff"
    rf"{''.join(sorted(_INVISIBLE_CHARACTERS | _BIDI_CONTROLS | _JOINERS))}]"
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_JOINED_SCRIPTS = re.compile(
    r"[\u0600-\u07ff\u0900-\u0dff\U0001f000-\U0001faff\u2600-\u27bf\ufe0f\u2190-\u21ff\u2b00-\u2bff"
    r"\u0e00-\u0fff\U0001f1e6-\U0001f1ff\u2640\u2642]"
)
MAX_SYMBOL_CHARS = 3
_CONFUSABLE_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC")
_STYLED_LETTERS = ("MATHEMATICAL", "FULLWIDTH LATIN", "CIRCLED LATIN", "PARENTHESIZED LATIN")
_MAX_REPEATED_CHARS = 240
_LONG_REPETITION = re.compile(rf"\s{{{_MAX_REPEATED_CHARS},}}|(\S)\1{{{_MAX_REPEATED_CHARS},}}")
"""Long repetitions only slow down the patterns."""


def check_hidden_text(file: str, text: str) -> Iterator[ScanFinding]:
    if text.startswith("\ufeff"):
        text = text[1:]
    hyphens = is_document(file) and not _INVISIBLE_CHARACTERS & {*text} - {_SOFT_HYPHEN}
    hyphens = hyphens and not _MISPLACED_HYPHEN.search(text)
    stray = (is_reference(file) or hyphens) and _has_only_stray_characters(text)
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if line.isascii() and not _CONTROL_CHARACTER.search(line):
            continue
        for cause in _find_hidden_characters(line):
            yield ScanFinding("unicode", file, number, cause, not (stray and cause == _INVISIBLE))


def _has_only_stray_characters(text: str) -> bool:
    """Whether its invisible characters are too few to carry a message: converters leave some.

    A word that one of them splits is joined again before it is read.
    """
    if text.isascii():
        return True
    found = [each.start() for each in _INVISIBLE_CHARACTER.finditer(text)]
    apart = all(after - before > 1 for before, after in pairwise(found))
    return len(found) <= MAX_STRAY_CHARACTERS and apart


def normalize_text(text: str) -> str:
    """Without invisible characters, in Unicode form NFKC, with the line ends of Unix."""
    text = text.replace("\r\n", "\n")
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _REMOVED_CHARACTER.sub("", text))
    return _LONG_REPETITION.sub(_shorten_repetition, text)


def _shorten_repetition(run: re.Match[str]) -> str:
    """By multiples of four, so that base64 text can still be decoded."""
    return run[0][: _MAX_REPEATED_CHARS + (len(run[0]) - _MAX_REPEATED_CHARS) % 4]


def _find_hidden_characters(line: str) -> Iterator[str]:
    if _HIDDEN_CHARACTER.search(line):
        yield from _describe_hidden_characters(line)
    for word in _WORD.findall(line):
        if cause := _describe_mixed_scripts(word):
            yield cause
            break


def _describe_hidden_characters(line: str) -> Iterator[str]:
    if _CONTROL_CHARACTER.search(line):
        yield "control characters: a terminal would act on them, or hide what follows"
    if any(0xE0000 <= ord(letter) <= 0xE0FFF for letter in line):
        yield "invisible tag characters, which carry hidden text"
    if any(letter in _DIRECTION_OVERRIDES for letter in line):
        yield "text that changes its direction: it is not displayed as it is read"
    if any(letter in _INVISIBLE_CHARACTERS for letter in line):
        yield _INVISIBLE
    if any(
        letter == "\ufeff" or (letter in _JOINERS and not _joins_letters(line, at))
        for at, letter in enumerate(line)
    ):
        yield "joiners between letters that do not join: hidden marks, or a split word"
    if sum(0xFE00 <= ord(letter) <= 0xFE0F for letter in line) > 24:
        yield "a run of variation selectors, which can carry hidden bytes"


def _joins_letters(line: str, at: int) -> bool:
    around = line[max(0, at - 2) : at] + line[at + 1 : at + 3]
    return bool(_JOINED_SCRIPTS.search(around))


def _describe_mixed_scripts(word: str) -> str:
    if word.isascii():
        return ""
    names = [unicodedata.name(letter, "") for letter in word]
    if any(name.startswith(_STYLED_LETTERS) for name in names):
        return f"{word!r} is written with letters that only look like the usual ones"
    latin = any(letter.isascii() for letter in word)
    foreign = [name for name in names if name.startswith(_CONFUSABLE_SCRIPTS)]
    units = {"µ", "Ω", "Δ", "μ", "π", "σ", "λ"}
    if len(word) <= MAX_SYMBOL_CHARS and all(name.startswith("GREEK") for name in foreign):
        return ""  # a symbol of a formula
    if latin and foreign and not any(letter in units for letter in word):
        return f"{word!r} mixes alphabets that look alike"
    return ""


MAX_BASE64_BLOCKS = 200
_BASE64_BLOCK = re.compile(
    r"(?<![\w+/=-])[A-Za-z0-9+/_-]{20,}={0,2}(?:\s*\n\s*[A-Za-z0-9+/_-]{4,}={0,2})*"
)
_HEX_BLOCK = re.compile(r"(?:\\x[0-9a-fA-F]{2}){6,}|(?<![\w])(?:[0-9a-fA-F]{2}){16,}(?![\w])")
_CHARACTER_CODES = re.compile(r"(?:\b\d{2,3}\b\s*,\s*){8,}\d{2,3}\b")
_PERCENT_ENCODED = re.compile(r"(?:%[0-9a-fA-F]{2}|[\w.-]){12,}")
_ROT13_KEYWORDS = re.compile(
    r"\b(?:vzcbeg|heyyvo|fhocebprff|uggcf?://|phey |jtrg |riny\(|vtaber (?:nyy|cerivbhf)|onfu -)",
    re.IGNORECASE,
)
_REVERSED_KEYWORDS = re.compile(
    r"//:s?ptth|\btropmi\b|\btekcos\b|ssecorpbus|\bmetsys\b|\blave\b|\bcexe\b|snoitcurtsni|"
    r"\| *lruc|hsab *\|",
    re.IGNORECASE,
)
_HARMLESS_PREFIX = re.compile(
    r"data:(?:image|font|audio|video)/[\w.+-]+;base64,|sha(?:256|384|512)-|integrity|ssh-(?:rsa|ed25519)|AAAA[BC]3",
    re.IGNORECASE,
)


def decode_hidden_texts(text: str) -> Iterator[tuple[int, str]]:
    """Readable texts that are encoded in this one, each with its first line."""
    for count, found in enumerate(_BASE64_BLOCK.finditer(text)):
        before = text[max(0, found.start() - 60) : found.start()]
        if count < MAX_BASE64_BLOCKS and not _HARMLESS_PREFIX.search(before + found[0][:8]):
            yield from _decode_if_readable(text, found, _decode_base64(found[0]))
    for found in _HEX_BLOCK.finditer(text):
        yield from _decode_if_readable(text, found, _decode_hex(found[0]))
    for found in _CHARACTER_CODES.finditer(text):
        numbers = [int(each) for each in re.findall(r"\d+", found[0])]
        if all(9 <= number < 127 for number in numbers):
            yield from _decode_if_readable(text, found, bytes(numbers))
    for found in _PERCENT_ENCODED.finditer(text) if text.count("%") > 5 else ():
        if found[0].count("%") > 5:
            yield from _decode_if_readable(text, found, unquote(found[0]).encode())
    yield from _decode_rot13_and_reversed(text)


def _decode_rot13_and_reversed(text: str) -> Iterator[tuple[int, str]]:
    """ROT13, or written backwards."""
    lowered = text.casefold()
    if may_match(_ROT13_KEYWORDS, lowered) and (found_rot := _ROT13_KEYWORDS.search(text)):
        yield line_number(text, found_rot.start()), codecs.encode(text, "rot13")
    if may_match(_REVERSED_KEYWORDS, lowered) and (
        found_reversed := _REVERSED_KEYWORDS.search(text)
    ):
        line = text.count("\n", 0, found_reversed.start())
        for each in text.split("\n")[line : line + 3]:
            yield line + 1, each[::-1]


def _decode_if_readable(text: str, found: re.Match[str], data: bytes) -> Iterator[tuple[int, str]]:
    for encoding in ("utf-8", "utf-16-le"):
        try:
            decoded = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        letters = sum(letter.isprintable() or letter in "\n\t\r" for letter in decoded)
        if len(decoded) >= 6 and letters >= 0.95 * len(decoded) and decoded.isascii():
            yield line_number(text, found.start()), decoded
            return


def _decode_base64(text: str) -> bytes:
    plain = "".join(text.split()).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4))
    except (binascii.Error, ValueError):
        return b""


def _decode_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text.replace("\\x", ""))
    except ValueError:
        return b""


MAX_UNFOLD_PASSES = 3
_ASSIGNMENT = re.compile(
    r"(?:^|[;&\s])(?:local\s+|export\s+)?(\w+)=(\"[^\"\n$`]*\"|'[^'\n]*'|[^\s;&|$`\"'()]+)"
)
_ANSI_C_QUOTED = re.compile(r"\$'((?:[^'\\]|\\.)*)'")
_PRINTF_SUBSTITUTION = re.compile(
    r"\$\(\s*(?:printf|echo\s+-\w*e\w*)\s+[\"']([^\"'$]*\\[x0-7u][^\"'$]*)[\"']\s*\)"
)
_CHARACTER_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\([0-7]{3})|\\u([0-9a-fA-F]{4})")
_EMPTY_QUOTES = re.compile(r"(?<=[\w/.:-])(?:\"\"|'')(?=[\w/.:-])")
_QUOTED_FRAGMENT = re.compile(
    r"(?<=[\w/.:-])\"([\w/.:-]{1,12})\"|(?<=[\w/.:-])'([\w/.:-]{1,12})'|\"([\w/.:-]{1,12})\"(?=[\w/.:-])|'([\w/.:-]{1,12})'(?=[\w/.:-])"
)
_NEEDLESS_BACKSLASH = re.compile(r"(?<=\w)\\(?=[a-z])|(?<![\w\\])\\(?=[a-z]\w)")
_IFS_OR_BRACES = re.compile(r"\$\{?IFS\}?(?:\$\d)?|\{(\w+),([^{}\s]+)\}")
_VARIABLE_SLICE = re.compile(r"\$\{(\w+):(\d+):(\d+)\}")
_EMPTY_EXPANSION = re.compile(r"\$@|\$\*(?=\w)|\$\{@\}|\$\(\)|``")
_DIRECTORY_OPTION = re.compile(r"\b(git|make)\s+(?:-C\s+\S+\s+)+")
"""`git -C FOLDER push` is treated as `git push`."""
_CASE_PATTERN = re.compile(
    r"((?:\bin|;;&?|;&)(?:[ \t]*(?:#[^\n]*)?\n)*\s*)\(?(?:[^()\n;#\"'`]|\"[^\"\n]*\"|'[^'\n]*')+\)"
)


def remove_case_patterns(text: str) -> str:
    """Removes the patterns of `case`: `a|env|b)` runs nothing."""
    return _CASE_PATTERN.sub(r"\1", text) if re.search(r"\bcase\b", text) else text


@lru_cache(maxsize=256)
def unfold_shell(text: str) -> str:
    """Inserts literal values of variables and removes quotes and escapes; nothing is run."""
    text = _DIRECTORY_OPTION.sub(r"\1 ", remove_case_patterns(text))
    for _ in range(MAX_UNFOLD_PASSES):
        unfolded = _unfold_once(text)
        if unfolded == text or len(unfolded) > 4 * len(text) + 4096:
            break
        text = unfolded
    return text


def _unfold_once(text: str) -> str:
    text = _ANSI_C_QUOTED.sub(lambda found: _decode_escapes(found[1]), text)
    text = _PRINTF_SUBSTITUTION.sub(lambda found: _decode_escapes(found[1]), text)
    values = {found[1]: found[2].strip("\"'") for found in _ASSIGNMENT.finditer(text)}
    text = _VARIABLE_SLICE.sub(lambda found: _expand_slice(found, values), text)
    for name, value in values.items() if "$" in text else ():
        if len(value) <= 200 and (f"${name}" in text or f"${{{name}}}" in text):
            literal = value.replace("\\", "\\\\")
            text = re.sub(rf"\$\{{{name}\}}|\${name}\b|\${name}(?=\$)", literal, text)
    text = _EMPTY_QUOTES.sub("", text)
    text = _QUOTED_FRAGMENT.sub(lambda found: next(each for each in found.groups() if each), text)
    text = _NEEDLESS_BACKSLASH.sub("", text)
    text = _EMPTY_EXPANSION.sub("", text)
    return _IFS_OR_BRACES.sub(
        lambda found: f"{found[1]} {found[2].replace(',', ' ')}" if found[1] else " ", text
    )


def _decode_escapes(text: str) -> str:
    return _CHARACTER_ESCAPE.sub(
        lambda found: chr(int(found[2], 8) if found[2] else int(found[1] or found[3], 16)), text
    )


def _expand_slice(found: re.Match[str], values: dict[str, str]) -> str:
    value = values.get(found[1])
    if value is None:
        return found[0]
    start = int(found[2])
    return value[start : start + int(found[3])]
