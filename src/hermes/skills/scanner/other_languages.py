"""Checks JavaScript, Ruby, Perl, PHP and other languages, also where strings hide words."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from hermes.skills.scanner.action import SkillAction, find_host
from hermes.skills.scanner.deobfuscation import decode_hidden_texts
from hermes.skills.scanner.finding import ScanFinding, line_number
from hermes.skills.scanner.literal_search import find_first
from hermes.skills.scanner.patterns import load_pattern, load_patterns
from hermes.skills.scanner.shell_text import split_long_lines

_SCRIPT_SUFFIXES = {
    ".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".rb", ".pl", ".pm", ".php", ".lua", ".ps1",
}  # fmt: skip
_CODE_SUFFIXES = _SCRIPT_SUFFIXES | {
    ".go", ".rs", ".java", ".c", ".cpp", ".cs", ".swift", ".kt", ".r", ".jl",
}  # fmt: skip
_PATTERN_SUFFIXES = _CODE_SUFFIXES | {".html", ".svg", ".htm", ".json", ".ipynb"}


def check_other_code(path: str, text: str) -> Iterator[ScanFinding]:
    if PurePosixPath(path).suffix.casefold() not in _PATTERN_SUFFIXES:
        return
    for rule in load_patterns("other", "signs"):
        if found := find_first(rule.pattern, text):
            yield ScanFinding("shell", path, line_number(text, found.start()), rule.cause)
    secret = find_first(load_pattern("other", "secret"), text)
    if secret and find_first(load_pattern("other", "network"), text):
        line = line_number(text, secret.start())
        yield ScanFinding("shell", path, line, f"it reads {secret[0]!r} and talks to the network")


_ACTION_SUFFIXES = _CODE_SUFFIXES | {".awk", ".groovy"}
_ACTION_KINDS = (
    "dynamic", "environment", "stays", "delete", "trust", "spies", "credentials", "agent",
    "workflows", "listens",
)  # fmt: skip
_KEYBOARD_LISTENER = re.compile(r"addEventListener\(\s*['\"]key(?:down|up|press)")
"""Every page with shortcuts has one; beside the network it may watch what is typed."""
_SENDING_WORD = re.compile(r"\b(?:post|put|patch|write|send|body|data)\b", re.IGNORECASE)


def find_other_actions(path: str, text: str) -> Iterator[SkillAction]:
    if PurePosixPath(path).suffix.casefold() not in _ACTION_SUFFIXES:
        return
    for kind in _ACTION_KINDS:
        if found := find_first(load_pattern("other_actions", kind), text):
            line = line_number(text, found.start())
            yield SkillAction(kind, path, line, " ".join(found[0].split()))
    network_use = find_first(load_pattern("other", "network"), text)
    if network_use:
        if keys := _KEYBOARD_LISTENER.search(text):
            yield SkillAction("spies", path, line_number(text, keys.start()), keys[0])
        sends = bool(_SENDING_WORD.search(text))
        hosts = {find_host(each[0]) for each in re.finditer(r"https?://[^\s\"'`]+", text)} or {""}
        hosts |= {
            each[1].casefold()
            for each in re.finditer(r"host(?:name)?\s*[:=]\s*[\"']([\w.-]+\.\w+)", text)
        }
        for host in sorted(hosts):
            line = line_number(text, network_use.start())
            yield SkillAction("network", path, line, network_use[0], host=host, sends=sends)


MAX_CODE_CHARS = 256 << 10
MAX_UNSPELL_PASSES = 4
_STRING_TRICK_SUFFIXES = _SCRIPT_SUFFIXES | {".psm1"}
_SENSITIVE_WORD = re.compile(
    r"^(?:node:)?(?:child_process|https?|net|dns|tls|dgram|fs|vm|env|process|mainModule)$|"
    r"\b(?:eval|Function|constructor|exec\w*|spawn\w*|require|system|shell_exec|passthru|popen|"
    r"assert|create_function|IEX|Invoke-\w+|DownloadString|curl|wget|bash|powershell|socket|fetch|"
    r"child_process|base64_decode|WebClient)\b|https?://|/bin/|\.ssh\b",
    re.IGNORECASE,
)
_STRING_LITERAL = r"(?:'[^'\\\n]{0,400}'|\"[^\"\\\n]{0,400}\")"
_NUMBER_LITERAL = r"(?:0x[0-9a-f]{1,2}|\d{1,3})"
_NUMBER_LIST = rf"{_NUMBER_LITERAL}(?:\s*,\s*{_NUMBER_LITERAL})+"
_PROGRAM_TEXT = re.compile(r"[\w)\]]\s*\([^)]*\)[\s\S]*[;{}|]|\|\s*\w*sh\b")
_ACTING_CALL = re.compile(
    r"\b(?:request|fetch|exec\w*|spawn\w*|system|require|eval|unlink\w*|writeFile\w*|socket|connect|"
    r"curl|wget|post|send)\b|\.env\b|https?://"
)
FoldMatch = Callable[["re.Match[str]"], str | None]


def _fold_numbers(found: re.Match[str]) -> str:
    key = int(found["key"], 0) if found.groupdict().get("key") else 0
    return "".join(
        chr(int(each, 0) ^ key) for each in re.findall(_NUMBER_LITERAL, found["of"], re.I)
    )


def _fold_join(found: re.Match[str]) -> str:
    parts = [each[1:-1] for each in re.findall(_STRING_LITERAL, found["of"])]
    if found.groupdict().get("turned"):
        parts.reverse()
    return (found.groupdict().get("by") or "").join(parts)


def _fold_encoded(found: re.Match[str]) -> str | None:
    text = found["of"][1:-1]
    try:
        if re.fullmatch(r"(?:[0-9a-fA-F]{2})+", text):
            return bytes.fromhex(text).decode()
        return base64.b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return None


def _fold_escapes(found: re.Match[str]) -> str:
    return re.sub(r"\\x([0-9a-fA-F]{2})", lambda each: chr(int(each[1], 16)), found["of"])


_STRING_TRICKS: tuple[tuple[re.Pattern[str], FoldMatch], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), fold)
    for pattern, fold in (
        (
            rf"\[\s*(?P<of>{_NUMBER_LIST})\s*,?\s*\]\s*\.map\([^\n]{{0,60}}?(?:fromCharCode|fromCodePoint|chr)"
            rf"[^\n^]{{0,30}}(?:\^\s*(?P<key>{_NUMBER_LITERAL})[\s)]*)?[^\n]{{0,12}}?\.join\(\s*(?:''|\"\"|``)?\s*\)",
            _fold_numbers,
        ),
        (
            rf"String\.from(?:CharCode|CodePoint)(?:\.apply)?\((?:\w+\s*,)?[\s.\[]*(?P<of>{_NUMBER_LIST})[\s\]]*\)",
            _fold_numbers,
        ),
        (rf"-join\s*\(?\s*\[char\[\]\]\s*@?\((?P<of>{_NUMBER_LIST})\)\s*\)?", _fold_numbers),
        (rf"\[\s*(?P<of>{_NUMBER_LIST})\s*\]\.pack\(\s*['\"][cCU]\*['\"]\s*\)", _fold_numbers),
        (rf"\bstring\.char\(\s*(?P<of>{_NUMBER_LIST})\s*\)", _fold_numbers),
        (rf"\bpack\s*\(?\s*['\"][cCUW]\*['\"]\s*,\s*(?P<of>{_NUMBER_LIST})\s*\)?", _fold_numbers),
        (
            r"(?P<of>(?:(?:\bchr\(|\[char\])\s*\d{1,3}\)?\s*[.+]\s*)+"
            r"(?:chr\(|\[char\])\s*\d{1,3}\)?)",
            _fold_numbers,
        ),
        (
            rf"\[\s*(?P<of>{_STRING_LITERAL}(?:\s*,\s*{_STRING_LITERAL})+)\s*,?\s*\]\s*(?P<turned>\.reverse(?:\(\))?\s*)?"
            r"\.join\(\s*(?:'(?P<by>[^'\n]{0,2})'|\"\")?\s*\)",
            _fold_join,
        ),
        (rf"(?P<of>{_STRING_LITERAL}(?:\s*[+.]\s*{_STRING_LITERAL})+)", _fold_join),
        (
            rf"(?P<of>{_STRING_LITERAL})\.split\(\s*(?:''|\"\")\s*\)\.reverse\(\)\.join\(\s*(?:''|\"\")\s*\)|"
            rf"(?P<or>{_STRING_LITERAL})\.reverse\b",
            lambda found: (found["of"] or found["or"])[1:-1][::-1],
        ),
        (
            rf"\b(?:strrev\s*\(|scalar\s+reverse\s*\(?)\s*(?P<of>{_STRING_LITERAL})\s*\)?",
            lambda found: found["of"][1:-1][::-1],
        ),
        (
            rf"\b(?:Buffer\.from|atob|base64_decode|hex2bin|decode_base64|decode64|unhexlify)\s*\(\s*"
            rf"(?P<of>{_STRING_LITERAL})[^)\n]{{0,20}}\)(?:\.toString\([^)\n]{{0,12}}\))?",
            _fold_encoded,
        ),
        (rf"\bpack\s*\(?\s*['\"]H\*['\"]\s*,\s*(?P<of>{_STRING_LITERAL})\s*\)?", _fold_encoded),
        (
            rf"\[\s*(?P<of>{_STRING_LITERAL})\s*\]\.pack\(\s*['\"](?:H\*|m0?)['\"]\s*\)",
            _fold_encoded,
        ),
        (r"(?P<of>(?:[\w /.:-]{0,20}\\x[0-9a-f]{2}){2,}[\w /.:-]{0,20})", _fold_escapes),
    )
)  # fmt: skip


def check_string_tricks(path: str, text: str) -> Iterator[ScanFinding]:
    if PurePosixPath(path).suffix.casefold() not in _STRING_TRICK_SUFFIXES:
        return
    code = split_long_lines(text[:MAX_CODE_CHARS])
    plain, hidden = undo_string_tricks(code)
    if hidden:
        at, value = hidden
        cause = f"a string hides {value[:60]!r}"
        yield ScanFinding("shell", path, line_number(code, at), cause)
    known = {each.cause for each in check_other_code(path, code)}
    for each in check_other_code(path, plain) if plain != code else ():
        if each.cause not in known:
            cause = f"{each.cause}; it is hidden by tricks with strings"
            yield ScanFinding("shell", path, 1, cause)
    for line, inside in decode_hidden_texts(code):
        if len(inside) > 30 and _PROGRAM_TEXT.search(inside) and _ACTING_CALL.search(inside):
            cause = f"hidden in encoded text: a program, {' '.join(inside.split())[:60]!r}"
            yield ScanFinding("encoded", path, line, cause)
            return


def undo_string_tricks(code: str) -> tuple[str, tuple[int, str] | None]:
    """The code with its strings put together; position and value of the first hidden word."""
    hidden: tuple[int, str] | None = None
    for number in range(MAX_UNSPELL_PASSES):
        folded = code
        for pattern, fold in _STRING_TRICKS:
            if number == 0:
                hidden = hidden or _find_hidden_word(pattern, fold, folded)
            folded = pattern.sub(lambda found, fold=fold: _quote_value(found, fold), folded)  # type: ignore[misc]
        if folded == code or len(folded) > 2 * len(code) + 4096:
            break
        code = folded
    return code, hidden


def _find_hidden_word(
    pattern: re.Pattern[str], fold: FoldMatch, code: str
) -> tuple[int, str] | None:
    """A sensitive word that appears only after the parts are put together."""
    for found in pattern.finditer(code):
        value = fold(found)
        word = _SENSITIVE_WORD.search(value) if value else None
        joined = fold is _fold_join and word is not None and "://" in word[0]
        if value and word and word[0] not in found[0] and not joined:
            return found.start(), value
    return None


def _quote_value(found: re.Match[str], fold: FoldMatch) -> str:
    value = fold(found)
    if value is None or not value.isprintable() or "'" in value or len(value) > 400:
        return found[0]
    return value if fold is _fold_escapes else f"'{value}'"
