"""Splits text into stems, as the full-text index does, and has the lists of stop words."""

import re

import apsw

_STOP_WORDS_TEXT = """
    a an the of to in on at for and or but if is was were are be been being am did do does done
    doing what when where who whom whose which how why that this these those it its he she they
    them his her hers their theirs him i me my we us our you your with by as from has have had
    having s t d ll re ve m so than then there here not no nor can could would should will shall
    may might must about into over after before during some any all each both either
"""
STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())
_CONVERSATIONAL_WORDS_TEXT = """
    please continue go going ahead proceed carry keep on resume finish retry try again next more
    yes yeah yep no nope ok okay sure right fine good great nice perfect thanks thank hello hi hey
    now just let lets do it think works agreed done wait stop further up back
"""
CONTENTLESS_WORDS = STOP_WORDS | frozenset(_CONVERSATIONAL_WORDS_TEXT.split())
"""Words of requests such as "please continue" that name nothing to remember."""
_WORD = re.compile(r"\w+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")


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
    found = _WORD.findall(text.lower().replace("_", " "))
    if text.isascii() or _CJK.search(text) is None:
        return found
    return [part for word in found for part in _cjk_parts(word)]


def _cjk_parts(word: str) -> list[str]:
    run = _CJK.search(word)
    if run is None:
        return [word]
    signs = run.group()
    pairs = [signs[at : at + 2] for at in range(len(signs) - 1)] or [signs]
    outside = [part for part in (word[: run.start()], word[run.end() :]) if part]
    return [*pairs, *(part for rest in outside for part in _cjk_parts(rest))]
