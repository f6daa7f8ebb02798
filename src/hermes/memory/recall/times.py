"""Knows the words by which people say when something was."""

import re

_TIME = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|last|next|ago|since|recently|weekend|soon|upcoming|"
    r"(mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july|august|"
    r"september|october|november|december|summer|winter|spring|autumn|"
    r"(day|week|month|year|hour|minute)s?|morning|night|(19|20)\d\d|\d+(st|nd|rd|th)|\d\d?:\d\d)\b",
    re.IGNORECASE,
)


def speaks_of_time(text: str) -> bool:
    return _TIME.search(text[:2_000]) is not None
