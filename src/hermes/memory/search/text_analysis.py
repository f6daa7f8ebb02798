"""Prepares text for the index and for scores: words, stems, parts of identifiers, and errors.

The index's tokenizer takes letters and digits for words and everything else for a gap, so
`api-7f9c`, `10.0.0.3` and `max_connections` are found by their parts and, as a phrase, whole.
Scripts that are written without gaps, and compound words, are handled here.
"""

import re
import unicodedata
import zlib
from datetime import date
from functools import lru_cache

import apsw

from hermes.core.knowledge import TranscriptLine
from hermes.plumbing.patterns import lazy_pattern

_SEARCH_STOP_WORDS_TEXT = """
    a an the of to in on at for and or but if is was were are be been did do does what when where
    who which how why that this these those it its i me my we us our you your with by as from has
    have had there here
"""
SEARCH_STOP_WORDS = frozenset(_SEARCH_STOP_WORDS_TEXT.split())
"""Words that a search need not find."""
_MORE_STOP_WORDS_TEXT = """
    being am done doing whom whose he she they them his her hers their theirs him having s t d ll
    re ve m so than then not no nor can could would should will shall may might must about into
    over after before during some any all each both either
"""
STOP_WORDS = SEARCH_STOP_WORDS | frozenset(_MORE_STOP_WORDS_TEXT.split())
"""Words of a question that say nothing about its subject."""
_CONVERSATIONAL_WORDS_TEXT = """
    please continue go going ahead proceed carry keep on resume finish retry try again next more
    yes yeah yep no nope ok okay sure right fine good great nice perfect thanks thank hello hi hey
    now just let lets do it think works agreed done wait stop further up back
"""
CONTENTLESS_WORDS = STOP_WORDS | frozenset(_CONVERSATIONAL_WORDS_TEXT.split())
"""Words of requests such as "please continue" that name nothing to remember."""
MARK_START, MARK_END = "\ue000", "\ue001"
"""Around a token of ours: letters that no text uses, and that the stemmer does not change."""
MAX_INDEXED_CHARS = 100_000
"""Characters of one text that are indexed; of a longer one, its beginning and its end."""
_INDEXED_TAIL_CHARS = 20_000
_CJK = lazy_pattern(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
_WORD = re.compile(r"\w+")
_COMPOUND_WORD = lazy_pattern(
    r"\b[A-Za-z0-9]{0,40}?[a-z0-9][A-Z][A-Za-z0-9]{0,60}\b|\b[A-Z]{2,9}[a-z]{2,40}\b"
)
_COMPOUND_PART = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CASE_CHANGE = lazy_pattern(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}")
_ERROR_WORDS = (
    *("error", "exception", "fail", "fatal", "panic", "refused", "denied", "timed out", "timeout"),
    *("killed", "no space", "not found"),
)
_VARIABLE_PARTS = lazy_pattern(
    r"(['\"`]).{1,80}?\1"  # quoted
    r"|(?<![\w.])~?/[\w.@+-]+(?:/[\w.@+-]*)*"  # paths
    r"|\b(?=\w*\d)[\w.:-]+\b"  # numbers, ids, addresses, times
)
_ERROR_CONTEXT_CHARS = 200
_MAX_ERROR_SIGNATURES = 5
"""Different errors of one text that get a signature."""


class Stemmer:
    """SQLite's own Porter stemmer, so that scores and index agree on what one word is."""

    def __init__(self) -> None:
        self._connection = apsw.Connection(":memory:")
        self._tokenizer = self._connection.fts5_tokenizer("porter", ["unicode61"])
        self._stems: dict[str, str] = {}

    def stem(self, word: str) -> str:
        known = self._stems.get(word)
        if known is None:
            found = list(self._tokenizer(word.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None))
            known = self._stems[word] = str(found[0][-1]) if found else word
        return known


def split_words(text: str) -> list[str]:
    """Lower-case words; runs of Chinese, Japanese and Korean signs become pairs of signs."""
    lowered = text.lower().replace("_", " ")
    return _WORD.findall(lowered if text.isascii() else _separate_cjk_pairs(lowered, True))


def searchable_words(text: str, *, for_query: bool = False) -> str:
    """The text with every sign that has to be found as a word separated.

    A run of Chinese, Japanese or Korean signs becomes each sign with its follower, and the last
    alone; in a query the last is left out, since the text may continue.
    """
    if text.isascii():
        return text
    folded = unicodedata.normalize("NFKD", text)
    folded = "".join(sign for sign in folded if not unicodedata.combining(sign))
    return _separate_cjk_pairs(unicodedata.normalize("NFC", folded), for_query)


def is_single_cjk_sign(word: str) -> bool:
    """One such sign: only pairs that begin with it show where it is."""
    return len(word) == 1 and _CJK.match(word) is not None


def truncate_for_index(text: str) -> str:
    return (
        text
        if len(text) <= MAX_INDEXED_CHARS
        else f"{text[: MAX_INDEXED_CHARS - _INDEXED_TAIL_CHARS]}\n{text[-_INDEXED_TAIL_CHARS:]}"
    )


def split_compounds(text: str) -> list[str]:
    """`getUserName` → `get User Name`, in their order."""
    if _CASE_CHANGE.search(text) is None:
        return []
    return [" ".join(compound_parts(word)) for word in dict.fromkeys(_COMPOUND_WORD.findall(text))]


def compound_parts(word: str) -> list[str]:
    return _COMPOUND_PART.findall(word)


def error_signatures(text: str) -> list[str]:
    """The same error with other numbers, names and paths has the same signature."""
    lowered = text.lower()
    positions = sorted(at for word in _ERROR_WORDS if (at := lowered.find(word)) >= 0)
    found: dict[str, None] = {}
    for at in positions[:_MAX_ERROR_SIGNATURES]:
        start = max(text.rfind("\n", 0, at) + 1, at - _ERROR_CONTEXT_CHARS)
        end = text.find("\n", at)
        found[
            error_signature(
                text[start : min(len(text) if end < 0 else end, at + _ERROR_CONTEXT_CHARS)]
            )
        ] = None
    return list(found)


def error_signature(line: str) -> str:
    bare = " ".join(re.findall(r"[a-z]+", _VARIABLE_PARTS.sub(" ", line).lower()))
    return f"e{zlib.crc32(bare.encode()):08x}"


@lru_cache(maxsize=1024)
def _fold(value: str) -> str:
    return "".join(sign if sign.isalnum() else MARK_START for sign in value.lower())


def mark_token(name: str, value: str) -> str:
    """A token that describes a text and is not part of it."""
    return f"{MARK_START}{name}{MARK_START}{_fold(value)}{MARK_END}"


def _separate_cjk_pairs(text: str, for_query: bool) -> str:
    def pairs(found: re.Match[str]) -> str:
        run = found.group()
        parts = [run[at : at + 2] for at in range(len(run))]
        return f" {' '.join(parts[:-1] if for_query and len(parts) > 1 else parts)} "

    return _CJK.sub(pairs, text)


def index_columns(line: TranscriptLine, *, fact: str = "") -> tuple[str, str, str]:
    """Body, facts and about of one line, as the index stores them."""
    text = truncate_for_index(line.text)
    body = searchable_words(text)
    facts = [*split_compounds(text), searchable_words(line.speaker)]
    about = [
        mark_token("run", line.run),
        mark_token("kind", line.kind),
        mark_token("role", line.role),
    ]
    about += [mark_token("error", each) for each in error_signatures(text)]
    if fact:
        about.append(mark_token("fact", fact))
    about.append(_date_words(line.at.date()))
    return body, "\n".join(facts).strip(), " ".join(about)


def quoted_mark(name: str, value: str) -> str:
    return f'"{mark_token(name, value)}"'


def session_mark(run: str) -> str:
    """The run itself, or a run below it: `run/1` belongs to `run`, `run2` does not."""
    own = mark_token("run", run)
    return f'("{own}" OR "{own.removesuffix(MARK_END)}{MARK_START}" *)'


@lru_cache(maxsize=64)
def _date_words(at: date) -> str:
    return f"{at:%Y-%m-%d %B}"
