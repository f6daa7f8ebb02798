"""Tells whether a program prints values without the names before them, and of which lines.

A password that has no form of its own is recognised by its name only.
"""

import re
from collections.abc import Callable, Sequence

from hermes.policy.commands.effects import word_set

_PART_PRINTERS = word_set(
    "dasel xq htmlq crudini augtool read mapfile readarray csvcut csvtool xsv mlr hck choose"
)
_MATCH_PRINTERS = word_set("grep egrep fgrep zgrep rg ag ack pcregrep")
_AWK_PROGRAMS = word_set("awk gawk mawk nawk original-awk")
_SED_PROGRAMS = word_set("sed gsed ssed")
_ONLY_MATCHES = re.compile(r"-[a-zA-Z]*[or]|--(?:only-m|replace)")
_OTHER_LINES = re.compile(r"-[a-zA-Z]*[vABCcf]|--(?:invert|after|before|context|file|count)")
_SUBSTITUTION = re.compile(r"(?:^|[^\w\\])s([^\w\s])((?:\\.|(?!\1).)*)\1")
_PRINTED_SUBSTITUTION = re.compile(r"s([^\w\s])((?:\\.|(?!\1).)*)\1.*\1[gI]*p[gI]*\Z", re.DOTALL)
_SELECTED_ACTION = re.compile(r"\s*/((?:[^/\\]|\\.)*)/\s*(?:\{[^{}]*\}|p)?\s*\Z")
_NAME_CHARACTERS = re.compile(r"[A-Za-z=:.]")
_AWK_PARTS = re.compile(
    r"\$(?!0\b|1\b)[\w({]|\bsubstr\(\s*\$0\s*,(?!\s*1\s*,)|\bg?e?n?sub\(|\b(?:split|match)\("
    r"|\bRS\b|\bgetline\b|\bFIELDWIDTHS\b|\bFPAT\b"
)
_JQ_VALUES = re.compile(
    r"\.\.|\.\[|to_entries|values|tostream|getpath|recurse|pass|pwd|secret|token|key\b|cred|auth",
    re.IGNORECASE,
)
_OTHER_DIALECT = re.compile(r"\[\[|--|&&|~~|\|\|")
"""Sets that Python reads in another way than grep."""
_BYTE_COUNT = re.compile(r"-[a-z]*c|--bytes")
_LATER_PART = re.compile(r"(?:-[fcb]|--(?:fields|characters|bytes)=?)(?!1?(?:-\d*)?\Z)\S")
_FILE_OF_WORDS = re.compile(r"-[a-z0-9]*[ad]|--(?:arg-file|delimiter)")


def prints_parts(name: str, words: Sequence[str]) -> bool:
    """`words`: its arguments."""
    if check := _CHECKS.get(name):
        return check(words)
    return name in _PART_PRINTERS


def selected_lines(name: str, words: Sequence[str]) -> re.Pattern[str] | None:
    """What each line that it prints contains; None where it may print any line."""
    plain = [word for word in words if not word.startswith("-")]
    if not plain:
        return None
    text = ""
    if name in _MATCH_PRINTERS and not any(map(_OTHER_LINES.match, words)):
        text = re.escape(plain[0]) if name == "fgrep" else plain[0]
    elif name in _AWK_PROGRAMS or (name in _SED_PROGRAMS and "-n" in words):
        found = _SELECTED_ACTION.match(plain[0])
        text = found[1] if found else ""
        if not found and name in _SED_PROGRAMS and (found := _PRINTED_SUBSTITUTION.match(plain[0])):
            text = found[2]
    if not text or "…" in text or _OTHER_DIALECT.search(text) or not _is_cheap(text):
        return None
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error:
        return None


def _is_cheap(pattern: str) -> bool:
    """Return whether a search takes at most the square of a line: a model chooses the pattern."""
    return "(" not in pattern and len(re.findall(r"[*+?{]", pattern)) <= 1


def _prints_only_matches(words: Sequence[str]) -> bool:
    return any(map(_ONLY_MATCHES.match, words))


def _cuts_bytes(words: Sequence[str]) -> bool:
    return any(map(_BYTE_COUNT.match, words))


def _prints_unknown_text(words: Sequence[str]) -> bool:
    return any("…" in word for word in words)


def _replaces_names(words: Sequence[str]) -> bool:
    found = (each for word in words for each in _SUBSTITUTION.finditer(word))
    return any(_NAME_CHARACTERS.search(each[2]) for each in found)


def _splits_lines(words: Sequence[str]) -> bool:
    sets = [word for word in words if not word.startswith("-")]
    inverts = any(re.match(r"-[a-z]*[cC]", word) for word in words)
    return inverts or bool(sets and re.search(r"[=: ]|:(?:blank|space|punct):", sets[0]))


def _splits_at_signs(words: Sequence[str]) -> bool:
    return bool(re.search(r"(?:-[a-z]*s|--separator)[ =]?[^ ]*[=:]", " ".join(words)))


def _cuts_names(words: Sequence[str]) -> bool:
    joined = re.sub(r"(-[fcb]) ", r"\1", " ".join(words)).split()
    return any(map(_LATER_PART.match, joined))


def _prints_fields(words: Sequence[str]) -> bool:
    return bool(_AWK_PARTS.search(" ".join(words)))


def _prints_values(words: Sequence[str]) -> bool:
    raw = any(re.match(r"-[a-z]*R|--raw-input", word) for word in words)
    return raw or bool(_JQ_VALUES.search(" ".join(words)))


def _skips_bytes(words: Sequence[str]) -> bool:
    return any(word.startswith(("skip=", "count=", "iseek=")) for word in words)


def _splits_file(words: Sequence[str]) -> bool:
    return any(map(_FILE_OF_WORDS.match, words))


def _prints_setting_or_match(words: Sequence[str]) -> bool:
    return "config" in words or ("grep" in words and _prints_only_matches(words))


_CHECKS: dict[str, Callable[[Sequence[str]], bool]] = {
    **dict.fromkeys(_SED_PROGRAMS, _replaces_names),
    **dict.fromkeys(_MATCH_PRINTERS, _prints_only_matches),
    **dict.fromkeys(_AWK_PROGRAMS, _prints_fields),
    **dict.fromkeys(("jq", "gojq", "jaq", "yq"), _prints_values),
    **dict.fromkeys(("head", "tail"), _cuts_bytes),
    **dict.fromkeys(("echo", "printf"), _prints_unknown_text),
    "cut": _cuts_names,
    "column": _splits_at_signs,
    "tr": _splits_lines,
    "dd": _skips_bytes,
    "git": _prints_setting_or_match,
    "xargs": _splits_file,
}
