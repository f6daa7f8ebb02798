"""Secrets that somebody else can make again: from the clock, from a constant, from a known seed."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.purpose import Purpose
from hermes.skills.scanner.shell_text import bounded

LARGEST = 64 << 10
_SECRET = (
    r"(?:pass(?:words?|phrases?|codes?)|secrets?|tokens?|keys?|pins?|otps?|certificates?|nonces?|"
    r"salts?|credentials?|key ?pairs?|api.?keys?)\b"
)
_MAKES = re.compile(
    rf"\b(?:generat|creat|mak|produc|mint|issu|rotat)\w*\b[^.\n]{{0,60}}\b{_SECRET}|"
    rf"\b{_SECRET}[^.\n]{{0,30}}\b(?:generator|maker|factory|rotation)\b"
)
_CODE = (".py", ".pyw", ".js", ".mjs", ".cjs", ".ts", ".sh", ".bash", ".rb", ".pl", ".php", ".go",
         ".ps1", ".lua")  # fmt: skip
_CLOCK = (
    r"(?:\btime\.time(?:_ns)?\(|\btime\(\)|\bDate\.now\(|\bnew Date\(|"
    r"\bdatetime\.\w*(?:now|today)\(|\bdate\s+\+|\bTime\.now|\btime\.Now\(|\bEPOCHSECONDS\b|\bGet-Date\b|\bgetpid\(|\$\$)"
)
_SEEDED = re.compile(
    r"\brandom\.seed\(\s*[^)\s]|\brandom\.Random\(\s*[^)\s]|\b(?:mt_)?srand\(|\bseedrandom\(\s*[^)\s]|"
    r"\brand\.(?:Seed|NewSource)\(|\bRANDOM=\S|\bRandom\.new\(\s*\d|\bsrand\s+\S|math\.randomseed\("
)
_HASHED = re.compile(
    rf"\b(?:hashlib\.\w+|pbkdf2\w*|createHash\(|md5|sha\d+(?:sum|_hex)?|Digest::\w+|crc32)\b"
    rf"[\s\S]{{0,160}}?{_CLOCK}|"
    rf"{_CLOCK}[\s\S]{{0,200}}?\b(?:hashlib\.\w+|createHash|md5sum|sha\d+sum|md5|"
    rf"openssl\s+(?:dgst|md5|sha\d+))\b"
)
_STRONG = re.compile(
    r"\bsecrets\.\w+\(|urandom|SystemRandom|randomBytes|getRandomValues|randomUUID|uuid4|"
    r"\bopenssl\s+rand|/dev/random|SecureRandom|random_bytes|crypto/rand|\bhmac|totp|jwt",
    re.IGNORECASE,
)
"""Chance that nobody can repeat; or a signature, which is made from a key and may tell the time."""
_REMARK = re.compile(r"^[ \t]*(?:#|//)[^\n]*", re.MULTILINE)


def look_at_weak_secrets(path: str, text: str, purpose: Purpose) -> Iterator[Finding]:
    if PurePosixPath(path).suffix.casefold() not in _CODE or not _MAKES.search(purpose.short):
        return
    code = bounded(_REMARK.sub("", text[:LARGEST]))
    for pattern in (_SEEDED,) if _STRONG.search(code) else (_SEEDED, _HASHED):
        if found := pattern.search(code):
            line = code.count("\n", 0, found.start()) + 1
            cause = "it makes secrets that whoever knows the time or the seed can make again"
            shown = " ".join(found[0].split())[:60]
            yield Finding(kind="capability", file=path, line=line, cause=f"{cause}: {shown!r}")
            return
