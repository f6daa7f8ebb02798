"""Finds what a person asked for once and for all, so that no summary can lose it.

Found by rule, not by a model: a summary may forget, this may not. It rather takes too much.
"""

import re
from collections.abc import Iterable

_STANDING = re.compile(
    r"\b(always|never|from now on|remember|do not|don[’']t|must(n[’']t)?|make sure|ensure"
    r"|at all times|keep in mind|whenever|every time|each time|in (the )?future|no longer"
    r"|only (use|ever|do)|prefer|avoid|stop (using|doing|asking)|under no circumstances"
    r"|before (you )?(do|chang|delet)\w*|shall|may not|should(n[’']t)?|is forbidden"
    r"|not allowed|instead of|rule)\b",
    re.IGNORECASE,
)
_PARAGRAPH = re.compile(r"\n\s*\n")
_SENTENCE = re.compile(r"(?<=[.!?。])\s+|\n")
LONGEST = 1200
"""Characters up to which the whole paragraph is kept: a sentence may lean on its neighbours."""


def standing_instructions(texts: Iterable[str]) -> list[str]:
    """Instructions in these user texts, word for word, in order, each once."""
    found: dict[str, None] = {}
    for text in texts:
        found.update(dict.fromkeys(_instructions(text)))
    return list(found)


def _instructions(text: str) -> Iterable[str]:
    for paragraph in _PARAGRAPH.split(text):
        if not _STANDING.search(paragraph):
            continue
        if len(paragraph) <= LONGEST:
            yield paragraph.strip()
            continue
        for sentence in _SENTENCE.split(paragraph):
            if _STANDING.search(sentence):
                yield sentence.strip()
