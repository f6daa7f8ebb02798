"""What of a text can be found: its words, the parts of its identifiers, the errors it tells of.

The index's tokenizer takes letters and digits for words and everything else for a gap, so
`api-7f9c`, `10.0.0.3` and `max_connections` are found by their parts and, as a phrase, whole. What
it cannot do is done here: signs that are written without gaps, and words grown together.
"""

import re
import unicodedata
import zlib
from functools import lru_cache

OPEN, CLOSE = "\ue000", "\ue001"
"""Around a token of ours: letters that no text uses, and that keep the stemmer's hands off."""
INDEXED = 100_000
"""Characters of one text that are indexed; of a longer one, its beginning and its end."""
_TAIL = 20_000
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
_GROWN = re.compile(
    r"\b[A-Za-z0-9]{0,40}?[a-z0-9][A-Z][A-Za-z0-9]{0,60}\b|\b[A-Z]{2,9}[a-z]{2,40}\b"
)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_HUMP = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}")
_WRONG = (
    *("error", "exception", "fail", "fatal", "panic", "refused", "denied", "timed out", "timeout"),
    *("killed", "no space", "not found"),
)
_VARYING = re.compile(
    r"(['\"`]).{1,80}?\1"  # quoted
    r"|(?<![\w.])~?/[\w.@+-]+(?:/[\w.@+-]*)*"  # paths
    r"|\b(?=\w*\d)[\w.:-]+\b"  # numbers, ids, addresses, times
)
_REACH = 200
_ERRORS = 5
"""Different errors of one text that get a signature."""


def plain_words(text: str, *, asked: bool = False) -> str:
    """The text with every sign that has to be found as a word standing alone.

    A stretch of Chinese, Japanese or Korean signs becomes each sign with its follower, and the
    last alone; where it is `asked` for, the last is left out, since the text may go on.
    """
    if text.isascii():
        return text
    folded = unicodedata.normalize("NFKD", text)
    folded = "".join(sign for sign in folded if not unicodedata.combining(sign))
    composed = unicodedata.normalize("NFC", folded)
    return _CJK.sub(lambda found: _pairs(found.group(), asked), composed)


def lone_sign(word: str) -> bool:
    """One such sign: only the beginnings of pairs tell where it stands."""
    return len(word) == 1 and _CJK.match(word) is not None


def shortened(text: str) -> str:
    return text if len(text) <= INDEXED else f"{text[: INDEXED - _TAIL]}\n{text[-_TAIL:]}"


def grown_together(text: str) -> list[str]:
    """`getUserName` → `get User Name`, in the order in which they stand."""
    if _HUMP.search(text) is None:
        return []
    return [" ".join(parts_of(word)) for word in dict.fromkeys(_GROWN.findall(text))]


def parts_of(word: str) -> list[str]:
    return _PART.findall(word)


def signatures(text: str) -> list[str]:
    """The same error with other numbers, names and paths has the same signature."""
    lowered = text.lower()
    places = sorted(at for word in _WRONG if (at := lowered.find(word)) >= 0)
    found: dict[str, None] = {}
    for at in places[:_ERRORS]:
        start = max(text.rfind("\n", 0, at) + 1, at - _REACH)
        end = text.find("\n", at)
        found[signature(text[start : min(len(text) if end < 0 else end, at + _REACH)])] = None
    return list(found)


def signature(line: str) -> str:
    bare = " ".join(re.findall(r"[a-z]+", _VARYING.sub(" ", line).lower()))
    return f"e{zlib.crc32(bare.encode()):08x}"


@lru_cache(maxsize=1024)
def _folded(value: str) -> str:
    return "".join(sign if sign.isalnum() else OPEN for sign in value.lower())


def mark(name: str, value: str) -> str:
    """A token that says something about a text rather than standing in it."""
    return f"{OPEN}{name}{OPEN}{_folded(value)}{CLOSE}"


def _pairs(run: str, asked: bool) -> str:
    pairs = [run[at : at + 2] for at in range(len(run))]
    return f" {' '.join(pairs[:-1] if asked and len(pairs) > 1 else pairs)} "
