"""Tells whether a program prints values without the names before them, and of which lines.

A password that has no form of its own is recognised by its name only. Programs that print whole
lines are listed; all others that read text may print parts.
"""

import re
from collections.abc import Callable, Sequence

from hermes.policy.commands import tables
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.tables import (
    OptionGrammar,
    ParsedArguments,
    option_matches,
    parse_arguments,
)
from hermes.policy.programs.changed_form import TELLS_ABOUT_TEXT

_KEEPS_LINES = word_set(
    "cat nl zcat bzcat xzcat zstdcat lzcat gzcat lz4cat more zmore less most pg zless bzless xzless"
    " zstdless jless bat batcat zipgrep sort uniq shuf expand unexpand pr paste comm col ul look"
    " strings diff colordiff zdiff sdiff diff3 difft ts pv gron humanlog hl ccze grcat csvlook"
)
_PART_READERS = word_set("read mapfile readarray")
"""Builtins that split what they read."""
_MATCH_PRINTERS = word_set(
    "grep egrep fgrep zgrep bzgrep xzgrep zegrep zfgrep zstdgrep pcregrep rg ag ack pt csvgrep"
)
_AWK_PROGRAMS = word_set("awk gawk mawk nawk original-awk")
_SED_PROGRAMS = word_set("sed gsed ssed")
_JSON_PROGRAMS = word_set("jq gojq jaq yq")
_SUBSTITUTION = re.compile(
    r"(?<![A-HJ-LN-Za-z\\])s([^\w\s\\])((?:\\.|(?!\1).)*)\1((?:\\.|(?!\1).)*)", re.DOTALL
)
_OTHER_SED_PARTS = re.compile(r"(?:\A|[;{}!/\d$\n])\s*(?:s\w|l\s*\d*\s*(?:[;}\n]|\Z))")
"""A line in pieces, or a substitution between letters."""
_NO_NAMES = re.compile(
    r"(?:[\s\d\"'#,;^$*+?{}-]|\\[+?{}/$*#srtd.\"']|\[(?:[\s\d\"'#,;]|\\t|\d-\d|\[:(?:space|blank|digit):\])+\])*\Z"
)
"""A pattern that finds nothing of a name, nor the sign behind it."""
_NEW_LINE = re.compile(r"\\n|\n|\\0?1?2\b")
_PRINTED_SUBSTITUTION = re.compile(r"s([^\w\s\\])((?:(?!\1).)*)\1(?:(?!\1).)*\1[gI]*p[gI]*\Z")
_SELECTED_ACTION = re.compile(r"\s*/([^/]*)/\s*(p?|\{[^{}]*\})\s*\Z")
_SELECTING_OPTIONS = word_set(
    "-i -h -H -o -n -E -F -P -w -x -s -a -m -r --ignore-case --only-matching --color --replace"
    " --max-count --field-separator --quiet --silent --regexp-extended --no-index"
)
"""Options with which a pattern still tells which lines are printed."""
_PLAIN_PATTERN = re.compile(r"\^?(?:[\w ./:=,\"'@#%&<>;!-]|\[[\w ]+\]|(?<!\^)(?<!\A)\*)*\$?\Z")
"""All kinds of patterns agree what it finds."""
_AWK_PARTS = re.compile(
    r"\$\s*(?!0\b|1\b|[|/)\"']|\Z)\S|\$\s*\d+\s*(?:[-+*/%^]?=(?!=)|\+\+|--)|\bsubstr\(\s*\$0\s*,(?!\s*1\s*,)"
    r"|\bg?e?n?sub\(|\b(?:split|match)\(|\bRS\b|\bgetline\b|\bFIELDWIDTHS\b|\bFPAT\b"
)
_JQ_VALUES = re.compile(
    r"\.\.|\.\[|to_entries|values|tostream|getpath|recurse|pass|pwd|secret|token|key\b|cred|auth",
    re.IGNORECASE,
)
_JQ_FIELD = re.compile(r"\.[A-Za-z_][\w.-]*\Z")
_BYTE_COUNT = re.compile(r"[-+]\d*[a-z]*c|--b")
_LATER_PART = re.compile(r"(?:-[snz]*[fcb]|--(?:f|ch|b)[a-z]*=?)(?!1?(?:-\d*)?\Z)\S|--com")
_OPTION_VALUE = re.compile(r"((?:^| )(?:-[snz]*[fcb]|--(?:f|ch|b)[a-z]*)) ")
_COLUMN_OPTIONS = frozenset({"-t", "--table", "-x", "-n", "-e"})
_FOLD_WIDTH = re.compile(r"(?:-[bs]*[wg]|--[wg][a-z]*)[ =]?(\d+)|-(\d+)")
_MIN_FOLD_WIDTH_CHARS = 80
_GIT_PARTS = re.compile(r"--word-diff-regex|--word-diff=p|--color-words=|.*diff\.wordregex", re.I)


def prints_parts(name: str, words: Sequence[str]) -> bool:
    """`words`: its arguments."""
    if check := _CHECKS.get(name):
        return check(words)
    if name in _KEEPS_LINES or name in TELLS_ABOUT_TEXT:
        return False
    return name in _PART_READERS or name in tables.program_names("text")


def prints_words(name: str, words: Sequence[str]) -> bool:
    """Return whether it may print its own words, such as in an error."""
    if name in ("test", "[", "[["):
        return any(re.search(r"(?:^|\s)-(?:eq|ne|lt|le|gt|ge)(?:\s|$)", word) for word in words)
    return name not in _SILENT_BUILTINS


_SILENT_BUILTINS = word_set("true false export declare local readonly typeset set shift return")


def prints_names(name: str, words: Sequence[str]) -> bool:
    """Return whether it prints no lines: `grep -c`, and `jq .version` a single value."""
    if name in _JSON_PROGRAMS:
        return not _prints_values(words) and any(map(_JQ_FIELD.match, words))
    if name not in _MATCH_PRINTERS:
        return False
    return not {"-c", "-l", "-L", "-q", "--count"}.isdisjoint(_parse(name, words).names())


def selected_lines(name: str, words: Sequence[str]) -> re.Pattern[str] | None:
    """What each line that it prints contains; None where it may print any line."""
    if name not in _MATCH_PRINTERS | _AWK_PROGRAMS | _SED_PROGRAMS:
        return None
    found = _parse(name, words)
    options = found.names()
    if not found.words or found.rest or found.loose or not options <= _SELECTING_OPTIONS:
        return None
    script, text = found.words[0], ""
    if name in _MATCH_PRINTERS:
        literal = name == "fgrep" or not options.isdisjoint(("-F", "--fixed-strings"))
        text = re.escape(script) if literal else script
    elif selected := _SELECTED_ACTION.match(script):
        whole = name in _AWK_PROGRAMS or ("-n" in options and selected[2] == "p")
        text = selected[1] if whole and "getline" not in script else ""
    elif (
        name in _SED_PROGRAMS
        and "-n" in options
        and (selected := _PRINTED_SUBSTITUTION.match(script))
    ):
        text = selected[2]
    if not text or not _PLAIN_PATTERN.match(script if name in _MATCH_PRINTERS else text):
        return None
    # A model chooses the pattern: a search takes at most the square of a line.
    return re.compile(text, re.IGNORECASE) if text.count("*") <= 1 else None


def _parse(name: str, words: Sequence[str]) -> ParsedArguments:
    entry = tables.find_program(name)
    return parse_arguments(list(words), entry.grammar if entry else OptionGrammar())


def _prints_only_matches(words: Sequence[str]) -> bool:
    return any(re.match(r"-[a-zA-Z]*o|--o", word) for word in words)


def _replaces_lines(words: Sequence[str]) -> bool:
    return any(re.match(r"-[a-zA-Z]*[or]|--(?:on|rep)", word) for word in words)


def _cuts_bytes(words: Sequence[str]) -> bool:
    return any(map(_BYTE_COUNT.match, words))


def _replaces_names(words: Sequence[str]) -> bool:
    found = _parse("sed", words)
    for script in found.values("-e", "--expression") or found.words[:1]:
        changes = _SUBSTITUTION.findall(script)
        if any(not _NO_NAMES.match(each[1]) or _NEW_LINE.search(each[2]) for each in changes):
            return True
        if _OTHER_SED_PARTS.search(_SUBSTITUTION.sub("s", script)):
            return True
    return False


def _splits_lines(words: Sequence[str]) -> bool:
    sets = [word for word in words if not word.startswith("-")]
    inverts = any(re.match(r"-[a-z]*[cC]", word) for word in words)
    splits = bool(sets[1:] and _NEW_LINE.search(sets[1]) and re.search(r"[\"']|\\[t0]", sets[0]))
    signs = bool(sets and re.search(r"[=: ]|:(?:blank|space|punct):", sets[0]))
    return inverts or splits or signs


def _splits_at_signs(words: Sequence[str]) -> bool:
    found = _parse("column", words)
    separators = "".join(found.values("-s", "--separator"))
    others = [name for name, _ in found.options if not option_matches(name, ("-s", "--separator"))]
    return bool(re.search(r"[\w=:]", separators)) or not _COLUMN_OPTIONS.issuperset(others)


def _cuts_names(words: Sequence[str]) -> bool:
    joined = _OPTION_VALUE.sub(r"\1", " ".join(words)).split()
    return any(map(_LATER_PART.match, joined))


def _has_short_lines(words: Sequence[str]) -> bool:
    width = _FOLD_WIDTH.search(" ".join(words))
    return width is not None and int(width[1] or width[2]) < _MIN_FOLD_WIDTH_CHARS


def _prints_fields(words: Sequence[str]) -> bool:
    return bool(_AWK_PARTS.search(" ".join(words)))


def _prints_values(words: Sequence[str]) -> bool:
    raw = any(re.match(r"-[a-z]*R|--raw-input", word) for word in words)
    return raw or bool(_JQ_VALUES.search(" ".join(words)))


def _skips_bytes(words: Sequence[str]) -> bool:
    return any(word.startswith(("skip=", "count=", "iseek=")) for word in words)


def _gets_range(words: Sequence[str]) -> bool:
    return any(re.match(r"-[A-Za-z#]*[rC]|--(?:ran|cont)", word) for word in words)


def _prints_setting_or_match(words: Sequence[str]) -> bool:
    if "config" in words or any(map(_GIT_PARTS.match, words)):
        return True
    return "grep" in words and _prints_only_matches(words)


def _has_option(pattern: str) -> Callable[[Sequence[str]], bool]:
    return lambda words: any(re.match(pattern, word) for word in words)


_CHECKS: dict[str, Callable[[Sequence[str]], bool]] = {
    **dict.fromkeys(_SED_PROGRAMS, _replaces_names),
    **dict.fromkeys(_MATCH_PRINTERS, _prints_only_matches),
    "rg": _replaces_lines,
    **dict.fromkeys(_AWK_PROGRAMS, _prints_fields),
    **dict.fromkeys(_JSON_PROGRAMS, _prints_values),
    **dict.fromkeys(("head", "tail"), _cuts_bytes),
    **dict.fromkeys(("cmp", "zcmp"), _has_option(r"-[a-z]*[lb]|--(?:p|v)")),
    **dict.fromkeys(("fold", "fmt"), _has_short_lines),
    "tac": _has_option(r"-"),
    "xmllint": _has_option(r"--?(?:xp|sh|pat)"),
    "cut": _cuts_names,
    "column": _splits_at_signs,
    "tr": _splits_lines,
    "dd": _skips_bytes,
    "curl": _gets_range,
    "git": _prints_setting_or_match,
}
