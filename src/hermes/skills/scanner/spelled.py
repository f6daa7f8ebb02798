"""Words in JavaScript, Perl, Ruby, PHP and the like, spelled so that nobody finds them."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from hermes.skills.scanner.encoded import unpacked
from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.other_code import look_at_other_code
from hermes.skills.scanner.shell_text import bounded

LARGEST = 256 << 10
MOST_PASSES = 4
_CODE = {".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".rb", ".pl", ".pm", ".php", ".lua", ".ps1",
         ".psm1"}  # fmt: skip
_SENSITIVE = re.compile(
    r"^(?:node:)?(?:child_process|https?|net|dns|tls|dgram|fs|vm|env|process|mainModule)$|"
    r"\b(?:eval|Function|constructor|exec\w*|spawn\w*|require|system|shell_exec|passthru|popen|"
    r"assert|create_function|IEX|Invoke-\w+|DownloadString|curl|wget|bash|powershell|socket|fetch|"
    r"child_process|base64_decode|WebClient)\b|https?://|/bin/|\.ssh\b",
    re.IGNORECASE,
)
_TEXT = r"(?:'[^'\\\n]{0,400}'|\"[^\"\\\n]{0,400}\")"
_NUMBER = r"(?:0x[0-9a-f]{1,2}|\d{1,3})"
_NUMBERS = rf"{_NUMBER}(?:\s*,\s*{_NUMBER})+"
_PROGRAM = re.compile(r"[\w)\]]\s*\([^)]*\)[\s\S]*[;{}|]|\|\s*\w*sh\b")
_ACTS = re.compile(
    r"\b(?:request|fetch|exec\w*|spawn\w*|system|require|eval|unlink\w*|writeFile\w*|socket|connect|"
    r"curl|wget|post|send)\b|\.env\b|https?://"
)
Fold = Callable[["re.Match[str]"], str | None]


def _numbers(found: re.Match[str]) -> str:
    key = int(found["key"], 0) if found.groupdict().get("key") else 0
    return "".join(chr(int(each, 0) ^ key) for each in re.findall(_NUMBER, found["of"], re.I))


def _joined(found: re.Match[str]) -> str:
    parts = [each[1:-1] for each in re.findall(_TEXT, found["of"])]
    if found.groupdict().get("turned"):
        parts.reverse()
    return (found.groupdict().get("by") or "").join(parts)


def _backwards(found: re.Match[str]) -> str:
    return found["of"][1:-1][::-1]


def _decoded(found: re.Match[str]) -> str | None:
    text = found["of"][1:-1]
    try:
        if re.fullmatch(r"(?:[0-9a-fA-F]{2})+", text):
            return bytes.fromhex(text).decode()
        return base64.b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return None


def _escaped(found: re.Match[str]) -> str:
    return re.sub(r"\\x([0-9a-fA-F]{2})", lambda each: chr(int(each[1], 16)), found["of"])


_TRICKS: tuple[tuple[re.Pattern[str], Fold], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), fold)
    for pattern, fold in (
        (
            rf"\[\s*(?P<of>{_NUMBERS})\s*,?\s*\]\s*\.map\([^\n]{{0,60}}?(?:fromCharCode|fromCodePoint|chr)"
            rf"[^\n^]{{0,30}}(?:\^\s*(?P<key>{_NUMBER})[\s)]*)?[^\n]{{0,12}}?\.join\(\s*(?:''|\"\"|``)?\s*\)",
            _numbers,
        ),
        (
            rf"String\.from(?:CharCode|CodePoint)(?:\.apply)?\((?:\w+\s*,)?[\s.\[]*(?P<of>{_NUMBERS})[\s\]]*\)",
            _numbers,
        ),
        (rf"-join\s*\(?\s*\[char\[\]\]\s*@?\((?P<of>{_NUMBERS})\)\s*\)?", _numbers),
        (rf"\[\s*(?P<of>{_NUMBERS})\s*\]\.pack\(\s*['\"][cCU]\*['\"]\s*\)", _numbers),
        (rf"\bstring\.char\(\s*(?P<of>{_NUMBERS})\s*\)", _numbers),
        (rf"\bpack\s*\(?\s*['\"][cCUW]\*['\"]\s*,\s*(?P<of>{_NUMBERS})\s*\)?", _numbers),
        (
            r"(?P<of>(?:(?:\bchr\(|\[char\])\s*\d{1,3}\)?\s*[.+]\s*)+"
            r"(?:chr\(|\[char\])\s*\d{1,3}\)?)",
            _numbers,
        ),
        (
            rf"\[\s*(?P<of>{_TEXT}(?:\s*,\s*{_TEXT})+)\s*,?\s*\]\s*(?P<turned>\.reverse(?:\(\))?\s*)?"
            r"\.join\(\s*(?:'(?P<by>[^'\n]{0,2})'|\"\")?\s*\)",
            _joined,
        ),
        (rf"(?P<of>{_TEXT}(?:\s*[+.]\s*{_TEXT})+)", _joined),
        (
            rf"(?P<of>{_TEXT})\.split\(\s*(?:''|\"\")\s*\)\.reverse\(\)\.join\(\s*(?:''|\"\")\s*\)|"
            rf"(?P<or>{_TEXT})\.reverse\b",
            lambda found: (found["of"] or found["or"])[1:-1][::-1],
        ),
        (rf"\b(?:strrev\s*\(|scalar\s+reverse\s*\(?)\s*(?P<of>{_TEXT})\s*\)?", _backwards),
        (
            rf"\b(?:Buffer\.from|atob|base64_decode|hex2bin|decode_base64|decode64|unhexlify)\s*\(\s*"
            rf"(?P<of>{_TEXT})[^)\n]{{0,20}}\)(?:\.toString\([^)\n]{{0,12}}\))?",
            _decoded,
        ),
        (rf"\bpack\s*\(?\s*['\"]H\*['\"]\s*,\s*(?P<of>{_TEXT})\s*\)?", _decoded),
        (rf"\[\s*(?P<of>{_TEXT})\s*\]\.pack\(\s*['\"](?:H\*|m0?)['\"]\s*\)", _decoded),
        (r"(?P<of>(?:[\w /.:-]{0,20}\\x[0-9a-f]{2}){2,}[\w /.:-]{0,20})", _escaped),
    )
)  # fmt: skip


def look_at_spelling(path: str, text: str) -> Iterator[Finding]:
    if PurePosixPath(path).suffix.casefold() not in _CODE:
        return
    code = bounded(text[:LARGEST])
    plain, hidden = unspelled(code)
    if hidden:
        yield _found(path, code, hidden[0], f"a string hides {hidden[1][:60]!r}")
    known = {each.cause for each in look_at_other_code(path, code)}
    for each in look_at_other_code(path, plain) if plain != code else ():
        if each.cause not in known:
            cause = f"{each.cause}; it is hidden by tricks with strings"
            yield Finding(kind="shell", file=path, line=1, cause=cause)
    for line, inside in unpacked(code):
        if len(inside) > 30 and _PROGRAM.search(inside) and _ACTS.search(inside):
            cause = f"packed away: a program, {' '.join(inside.split())[:60]!r}"
            yield Finding(kind="encoded", file=path, line=line, cause=cause)
            return


def unspelled(code: str) -> tuple[str, tuple[int, str] | None]:
    """The code with its words put together, and the first that was hidden, with its place."""
    hidden: tuple[int, str] | None = None
    for number in range(MOST_PASSES):
        fresh = code
        for pattern, fold in _TRICKS:
            if number == 0:
                hidden = hidden or _hidden(pattern, fold, fresh)
            fresh = pattern.sub(lambda found, fold=fold: _quoted(found, fold), fresh)  # type: ignore[misc]
        if fresh == code or len(fresh) > 2 * len(code) + 4096:
            break
        code = fresh
    return code, hidden


def _hidden(pattern: re.Pattern[str], fold: Fold, code: str) -> tuple[int, str] | None:
    """A word that only comes about by putting the parts together."""
    for found in pattern.finditer(code):
        value = fold(found)
        word = _SENSITIVE.search(value) if value else None
        joined = fold is _joined and word is not None and "://" in word[0]
        if value and word and word[0] not in found[0] and not joined:
            return found.start(), value
    return None


def _quoted(found: re.Match[str], fold: Fold) -> str:
    value = fold(found)
    if value is None or not value.isprintable() or "'" in value or len(value) > 400:
        return found[0]
    return value if fold is _escaped else f"'{value}'"


def _found(path: str, code: str, at: int, cause: str) -> Finding:
    return Finding(kind="shell", file=path, line=code.count("\n", 0, at) + 1, cause=cause)
