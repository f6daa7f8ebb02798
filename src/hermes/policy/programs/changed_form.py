"""Tells whether a program prints text in a form in which secrets in it are not recognised.

Programs that keep whole lines or fields are listed; all others that read text may change it. awk
and jq keep it as far as their scripts call only functions that are listed, too.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from hermes.policy.commands import tables
from hermes.policy.commands.effects import word_set

MAX_PIECE_CHARS = 12
"""Shorter pieces of a text do not show that they belong to a secret."""
_KEEPS_LINES = word_set(
    "cat tac nl zcat bzcat xzcat zstdcat lzcat gzcat lz4cat head tail more zmore less most pg"
    " zless bzless xzless zstdless jless bat batcat grep egrep fgrep zgrep bzgrep xzgrep"
    " zegrep zfgrep pcregrep zstdgrep rg ag ack pt zipgrep sort uniq shuf expand unexpand fmt"
    " pr paste join comm column col ul look strings cmp diff colordiff zdiff zcmp wdiff sdiff"
    " diff3 vbindiff difft ts pv xmllint gron dasel htmlq xq humanlog hl ccze grcat csvcut"
    " csvlook csvgrep numfmt lolcat"
)
TELLS_ABOUT_TEXT = word_set(
    "wc cksum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum sum shasum md5"
    " crc32 seq yes expr basename dirname nproc tty arch getconf locale cal ncal bc dc tldr"
    " cheat navi howdoi info pinfo apropos whatis man tput clear reset stty tset sleep usleep"
    " zipinfo tree exa eza lsd uuidgen mcookie isutf8 cloc tokei scc shellcheck yamllint"
    " jsonlint csvstat cowsay cowthink"
)
"""Programs that print facts, not the text that they read."""
_OTHER_ENCODERS = word_set("uuencode")
_DECODING_WORD = re.compile(r"-[a-zA-Z]*[dD][a-zA-Z]*\Z|--decode\Z")
_CODE_WORD = re.compile(r"-[a-zA-Z]*[ceE]\Z|--eval\Z|--print\Z|-p\Z")
_CODE_PROGRAMS = re.compile(r"(?:python|perl|ruby|node|php)[\d.]*\Z")
_WIDE_CHARACTERS = re.compile(r"(?i)utf-?(?:7|16|32)|ucs|ebcdic|ibm|cp037")
_SHORT_PATTERN = re.compile(r"\.(?:\.{0,7}|\\?\{\d\\?\}|\?)\Z")
_PIECE = re.compile(r"(\d*)(-?)(\d*)\Z")
_CASES = ({"a-z", "A-Z"}, {"[:lower:]", "[:upper:]"})


def changes_form(name: str, words: Sequence[str]) -> bool:
    """`words`: its arguments."""
    if check := _CHECKS.get(name):
        return check(words)
    if _CODE_PROGRAMS.match(name):
        return any(map(_CODE_WORD.match, words))
    if name in _KEEPS_LINES or name in TELLS_ABOUT_TEXT:
        return False
    if name not in _OTHER_ENCODERS and name not in tables.program_names("text"):
        return False
    if name.startswith("base"):
        return not any(map(_DECODING_WORD.match, words))
    return name != "xxd" or "-r" not in words


def _encodes(words: Sequence[str]) -> bool:
    return words[:1] in (("base64",), ("enc",)) and "-d" not in words


def _maps_letters(words: Sequence[str]) -> bool:
    options = "".join(word for word in words if word.startswith("-") and len(word) > 1)
    sets = [word for word in words if not word.startswith("-") or len(word) == 1]
    if "c" in options or "C" in options or not re.search(r"[a-zA-Z0-9]", "".join(sets[:1])):
        return False
    if "d" in options or "s" in options:
        return len(sets[0]) > 2 and "d" in options
    escaped = all(re.fullmatch(r"(?:\\.|\W)+", each) for each in sets)
    return not escaped and set(sets) not in _CASES


def _has_narrow_lines(words: Sequence[str]) -> bool:
    width = re.search(r"(?:-w|--width)[ =]?(\d+)", " ".join(words))
    return width is not None and int(width[1]) <= MAX_PIECE_CHARS


def _cuts_pieces(words: Sequence[str]) -> bool:
    found = re.search(r"(?:^| )(?:-[cb]|--characters|--bytes)[ =]?([\d,-]+)", " ".join(words))
    pieces = [_PIECE.match(each) for each in found[1].split(",")] if found else []
    return any(
        each is not None
        and (not each[2] or (each[3] and int(each[3]) - int(each[1] or 1) < MAX_PIECE_CHARS))
        for each in pieces
    )


def _prints_short_matches(words: Sequence[str]) -> bool:
    only = any(re.match(r"-[a-zA-Z]*o|--only-matching", word) for word in words)
    return only and any(map(_SHORT_PATTERN.match, words))


def _prints_wide_characters(words: Sequence[str]) -> bool:
    to = re.search(r"(?:-t|--to-code)[ =]?(\S+)", " ".join(words))
    return to is not None and bool(_WIDE_CHARACTERS.search(to[1]))


def _swaps_bytes(words: Sequence[str]) -> bool:
    return any(re.match(r"conv=.*(?:swab|ebcdic|ibm)", word) for word in words)


_SED_CHANGE = re.compile(
    r"""(?x)(?:^|[^\w\\])s(?P<mark>[^\w\s])(?P<pattern>(?:(?!(?P=mark)).)*)(?P=mark)
    | (?:^|[;{}\s\d/$])y(?P<other>[^\w\s]).+(?P=other)"""
)
_ONE_CHARACTER = re.compile(
    r"\\?\(?(?:\.{1,7}|\\w|[A-Za-z0-9]|\[((?:\[:\w+:\]|[^]])*)\])(?:\\?\{[1-7]\\?\})?\\?\)?"
)
_NO_LETTERS = re.compile(r"\[:(?:space|blank|punct|cntrl):\]|\\[nrt]")


def _changes_characters(words: Sequence[str]) -> bool:
    changes = (found for word in words for found in _SED_CHANGE.finditer(word))
    return any(found["other"] or _matches_letters(found["pattern"]) for found in changes)


def _matches_letters(pattern: str) -> bool:
    """Return whether a pattern finds single letters or digits, or pieces of a few."""
    found = _ONE_CHARACTER.fullmatch(pattern)
    if found is None or found[1] is None:
        return found is not None
    return found[1].startswith("^") or bool(re.search(r"\w", _NO_LETTERS.sub("", found[1])))


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_CALL = re.compile(r"(?<![\w.$@])([A-Za-z_]\w*)\s*\(")
_AWK_CALLS = word_set(
    "if while for print printf sprintf length int index match tolower toupper substr split"
    " sub gsub gensub strftime systime mktime sqrt log exp rand srand and or in not return"
    " exit function"
)
_AWK_PIECES = re.compile(
    r"""(?x)\bsubstr\([^(),]*,[^(),]*,(?!\s*(?:1[2-9]|[2-9]\d|\d{3,})\s*\))
    | \bsplit\([^)]*,\s*(?:""|//)\s*[,)] | \b[FR]S\s*=\s*"" | \b(?:RT|FPAT|FIELDWIDTHS)\b | %c
    | \bg?e?n?sub\(\s*["/](?:\.{1,7}|\[[^]\s]*[a-zA-Z0-9^][^]\s]*\])["/]"""
)


def _awk_changes_form(words: Sequence[str]) -> bool:
    text = " ".join(words)
    called = _CALL.findall(_STRING.sub('""', text))
    splits = any(a in ("-F", "--field-separator") and not b for a, b in pairwise(words))
    return splits or not _AWK_CALLS.issuperset(called) or bool(_AWK_PIECES.search(text))


_JQ_NAME = re.compile(r"(?<![\w.$\"\-/])@?[a-z_][a-z_0-9]*(?![\w:\-/.])")
_JQ_NAMES = word_set(
    "if then elif else end and or not as def reduce foreach try catch import include label"
    " null true false select map map_values length utf8bytelength keys keys_unsorted values"
    " has in contains inside startswith endswith test match capture to_entries from_entries"
    " with_entries add any all flatten range floor ceil round sqrt pow log tostring tonumber"
    " type sort sort_by group_by min max min_by max_by unique unique_by join ascii_downcase"
    " ascii_upcase ltrimstr rtrimstr trim ltrim rtrim first last limit until nth empty error"
    " now todate fromdate todateiso8601 fromdateiso8601 strftime strptime mktime gmtime"
    " localtime input inputs path paths del delpaths getpath setpath tojson fromjson split"
    " sub gsub index indices rindex recurse walk env debug input_line_number arrays objects"
    " iterables booleans numbers normals strings nulls scalars tostream fromstream isvalid"
    " halt transpose splits ascii infinite nan isnan @json @text @csv @tsv @sh @html"
)
_JQ_FIELDS = re.compile(r"\{\s*[a-z_]\w*(?:\s*,\s*[a-z_]\w*)*\s*\}")
_YQ_VERBS = word_set("eval e eval-all ea")
_JQ_PIECES = re.compile(r"""(?x)split\(\s*""|g?sub\(\s*"(?:\.|\[)|(?:\[-?\d*:-?\d*\].*){2}""")


_JQ_SETTING = re.compile(r"--(?:arg|argjson|slurpfile|rawfile|argfile)\Z")


def _jq_changes_form(words: Sequence[str]) -> bool:
    text = _jq_filter(words)
    names = _JQ_NAME.findall(_JQ_FIELDS.sub("", _STRING.sub('""', text)))
    return not _JQ_NAMES.issuperset(names) or bool(_JQ_PIECES.search(text))


def _jq_filter(words: Sequence[str]) -> str:
    """The first word that is no option and no verb of yq."""
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if _JQ_SETTING.match(word):
            del waiting[:2]
        elif not word.startswith("-") and word not in _YQ_VERBS:
            return word
    return ""


_CHECKS: dict[str, Callable[[Sequence[str]], bool]] = {
    "openssl": _encodes,
    "tr": _maps_letters,
    "fold": _has_narrow_lines,
    "cut": _cuts_pieces,
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg"), _prints_short_matches),
    "iconv": _prints_wide_characters,
    "dd": _swaps_bytes,
    **dict.fromkeys(("sed", "gsed", "ssed"), _changes_characters),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), _awk_changes_form),
    **dict.fromkeys(("jq", "gojq", "jaq", "yq"), _jq_changes_form),
}
