"""What the house itself says in a conversation, so that it is never taken for a person's wish."""

from hermes.core.remembering import HOUSE, RECALLED

NUDGE = f"{HOUSE} your answer was empty. Go on with the task, or say in words where it stands.]"
CUT_OFF = (
    f"{HOUSE} your last answer was cut off at its longest possible length, so the call was not "
    "whole. Send smaller pieces: a shorter text, or several calls.]"
)
SUM_UP = (
    f"{HOUSE} all steps of this turn are used up and no tool can be called any more. Say in words "
    "where things stand: what is done and verified, what is not, and what the next step would be.]"
)
OWN_WORDS = frozenset({NUDGE, CUT_OFF, SUM_UP})


def own_words(text: str) -> bool:
    """True for what the house said itself, recalled text included."""
    return text in OWN_WORDS or text.startswith(RECALLED)


SUMMARY = f"{HOUSE} the window was full; this stands for"
"""How a summary begins."""
STORY = "What happened so far:"
"""Heads the part of a summary that a later summary may shorten again."""
