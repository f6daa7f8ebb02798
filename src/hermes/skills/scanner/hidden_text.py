"""Finds invisible and look-alike characters, and normalizes text."""

import re
import unicodedata
from collections.abc import Iterator

from hermes.skills.scanner.finding import ScanFinding

_BIDI_CONTROLS = frozenset(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c\u200e\u200f"
)
_DIRECTION_OVERRIDES = frozenset("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")
_INVISIBLE_CHARACTERS = frozenset(
    "\u200b\u2060\u2061\u2062\u2063\u2064\u180e\u00ad\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5"
    "\u206a\u206b\u206c\u206d\u206e\u206f\ufff9\ufffa\ufffb"
)
_JOINERS = frozenset("\u200c\u200d")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f]|\r(?!\n)")
_WORD = re.compile(r"[^\W\d_]{2,}")
_JOINED_SCRIPTS = re.compile(
    r"[\u0600-\u07ff\u0900-\u0dff\U0001f000-\U0001faff\u2600-\u27bf\ufe0f\u2190-\u21ff\u2b00-\u2bff"
    r"\u0e00-\u0fff\U0001f1e6-\U0001f1ff\u2640\u2642]"
)
_CONFUSABLE_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC")
_STYLED_LETTERS = ("MATHEMATICAL", "FULLWIDTH LATIN", "CIRCLED LATIN", "PARENTHESIZED LATIN")


_MAX_REPEATED_CHARS = 240
_LONG_REPETITION = re.compile(rf"\s{{{_MAX_REPEATED_CHARS},}}|(\S)\1{{{_MAX_REPEATED_CHARS},}}")
"""Long repetitions only slow down the patterns."""


def check_hidden_text(file: str, text: str) -> Iterator[ScanFinding]:
    if text.startswith("\ufeff"):
        text = text[1:]
    for number, line in enumerate(text.split("\n"), 1):
        if line.isascii() and not _CONTROL_CHARACTER.search(line):
            continue
        for cause in _find_hidden_characters(line):
            yield ScanFinding(kind="unicode", file=file, line=number, cause=cause)


def normalize_text(text: str) -> str:
    """Without invisible characters, in Unicode form NFKC."""
    visible = "".join(
        letter
        for letter in text
        if letter not in _INVISIBLE_CHARACTERS
        and letter not in _BIDI_CONTROLS
        and letter not in _JOINERS
    )
    return _LONG_REPETITION.sub(_shorten_repetition, unicodedata.normalize("NFKC", visible))


def _shorten_repetition(run: re.Match[str]) -> str:
    """By multiples of four, so that base64 text can still be decoded."""
    return run[0][: _MAX_REPEATED_CHARS + (len(run[0]) - _MAX_REPEATED_CHARS) % 4]


def _find_hidden_characters(line: str) -> Iterator[str]:
    if _CONTROL_CHARACTER.search(line):
        yield "control characters: a terminal would act on them, or hide what follows"
    if any(0xE0000 <= ord(letter) <= 0xE0FFF for letter in line):
        yield "invisible tag characters, which carry hidden text"
    if any(letter in _DIRECTION_OVERRIDES for letter in line):
        yield "text that changes its direction: it is not displayed as it is read"
    if any(letter in _INVISIBLE_CHARACTERS for letter in line):
        yield "invisible characters inside the text"
    if _has_stray_joiner(line):
        yield "joiners between letters that do not join: hidden marks, or a split word"
    if sum(0xFE00 <= ord(letter) <= 0xFE0F for letter in line) > 24:
        yield "a run of variation selectors, which can carry hidden bytes"
    for word in _WORD.findall(line):
        if cause := _describe_mixed_scripts(word):
            yield cause
            break


def _has_stray_joiner(line: str) -> bool:
    for at, letter in enumerate(line):
        if letter == "\ufeff" or (letter in _JOINERS and not _joins_letters(line, at)):
            return True
    return False


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
    if latin and foreign and not any(letter in units for letter in word):
        return f"{word!r} mixes alphabets that look alike"
    return ""
