"""Finds hidden decisions, secrets that can be predicted, and patterns that are always blocked."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath

import msgspec

from hermes.core.messages import Value
from hermes.skills.scanner.finding import (
    DOCUMENT_SUFFIXES,
    TABLE_SUFFIXES,
    ScanFinding,
    line_number,
)
from hermes.skills.scanner.literal_search import index_text
from hermes.skills.scanner.patterns import LazyPattern, read_pattern_file
from hermes.skills.scanner.purpose import DeclaredPurpose
from hermes.skills.scanner.python.static_values import (
    PythonModule,
    dotted_name,
    last_name,
    parse_python,
)
from hermes.skills.scanner.shell_text import split_long_lines

_DIGEST_CALL = re.compile(r"\.(?:hex)?digest\(\)|\b(?:crc32|adler32|fnv1a\w*|murmur\w*|xxh\w*)\(")
_IDENTITY_WORDS = re.compile(
    r"user|name|host|login|email|kid\b|token|passw|pkg|package|author|domain|repo|branch|\bip\b|path"
)
_HEX_DIGEST = re.compile(r"[0-9a-fA-F]{4,128}")
_DISABLED_CHECK = re.compile(
    r"['\"]verify_(?:signature|aud|exp|iss)['\"]: False|\bverify(?:_ssl|_signature)?=False|"
    r"algorithms?=\[?['\"]none['\"]|check_hostname = False|\bCERT_NONE\b|_create_unverified_context"
)
_DECLARED_SWITCH = re.compile(
    r"insecure|verif|debug|\bdev\w*|test|local|skip|unsafe|self_?signed|no_?check|trust|\bssl|tls|"
    r"https|peek|inspect|decode_only",
    re.IGNORECASE,
)
"""A switch whose name tells what it does."""


def check_backdoors(path: str, text: str) -> Iterator[ScanFinding]:
    if not path.endswith((".py", ".pyw")) and not re.match(r"#!.*\bpython", text):
        return
    module = parse_python(text)
    try:
        found = [*_DigestComparisons(module).found(), *_find_conditional_bypass(module)]
    except (ValueError, RecursionError, MemoryError):
        return
    for line, cause in found:
        yield ScanFinding("python", path, line, cause)


class _DigestComparisons:
    """Comparisons of digests with fixed values in one module."""

    def __init__(self, module: PythonModule) -> None:
        self._module = module
        self._assigned = {
            node.targets[0].id: node.value
            for node in module.nodes
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        self._digests = {
            name: text
            for name, value in self._assigned.items()
            if _DIGEST_CALL.search(text := ast.unparse(value))
        }

    def found(self) -> Iterator[tuple[int, str]]:
        for node in self._module.nodes:
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and last_name(node.func).endswith("startswith"):
                sides = [getattr(node.func, "value", node.func), *node.args]
            else:
                continue
            digest = next((text for each in sides if (text := self._digest(each))), "")
            fixed = any(self._fixed(each) for each in sides)
            partial = isinstance(node, ast.Call) or bool(
                re.search(r"\[-?\d*:-?\d*\]|crc|adler", digest)
            )
            if digest and fixed and (partial or _IDENTITY_WORDS.search(digest)):
                yield node.lineno, "it decides by a digest, which hides its target"

    def _digest(self, node: ast.AST) -> str:
        text = ast.unparse(node)
        if _DIGEST_CALL.search(text):
            return text
        names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
        digest = next((self._digests[name] for name in names if name in self._digests), "")
        return f"{text} = {digest}" if digest else ""

    def _fixed(self, node: ast.AST, depth: int = 0) -> bool:
        """Return whether it is a literal digest, a part of one, or a collection of them."""
        if isinstance(node, ast.Name) and depth < 3 and node.id in self._assigned:
            return self._fixed(self._assigned[node.id], depth + 1)
        if isinstance(node, ast.Set | ast.List | ast.Tuple | ast.Dict):
            items = node.keys if isinstance(node, ast.Dict) else node.elts
            return bool(items) and all(
                each is not None and self._fixed(each, depth + 1) for each in items
            )
        if isinstance(node, ast.Call) and dotted_name(node.func) in ("set", "frozenset", "tuple"):
            return any(self._fixed(each, depth + 1) for each in node.args)
        value = self._module.fold(node)
        if isinstance(value, int):
            return abs(value) > 1 << 16
        return isinstance(value, str) and bool(_HEX_DIGEST.fullmatch(value))


def _find_conditional_bypass(module: PythonModule) -> Iterator[tuple[int, str]]:
    """A check that is left out under a condition."""
    for node in module.nodes:
        test = ast.unparse(node.test) if isinstance(node, ast.If) else ""
        if not isinstance(node, ast.If) or "__name__" in test or _DECLARED_SWITCH.search(test):
            continue
        inside = "\n".join(ast.unparse(each) for each in node.body)
        flat = not any(isinstance(each, ast.If | ast.FunctionDef) for each in node.body)
        if flat and (off := _DISABLED_CHECK.search(inside)):
            yield node.lineno, f"it skips a check under a condition: {off[0]!r}"


MAX_SECRET_SCAN_CHARS = 64 << 10
_SECRET_WORD = (
    r"(?:pass(?:words?|phrases?|codes?)|secrets?|tokens?|keys?|pins?|otps?|certificates?|nonces?|"
    r"salts?|credentials?|key ?pairs?|api.?keys?)\b"
)
_GENERATES_SECRETS = re.compile(
    rf"\b(?:generat|creat|mak|produc|mint|issu|rotat)\w*\b[^.\n]{{0,60}}\b{_SECRET_WORD}|"
    rf"\b{_SECRET_WORD}[^.\n]{{0,30}}\b(?:generator|maker|factory|rotation)\b"
)
_CODE_SUFFIXES = (
    ".py", ".pyw", ".js", ".mjs", ".cjs", ".ts", ".sh", ".bash", ".rb", ".pl", ".php", ".go",
    ".ps1", ".lua",
)  # fmt: skip
_CLOCK_PATTERN = (
    r"(?:\btime\.time(?:_ns)?\(|\btime\(\)|\bDate\.now\(|\bnew Date\(|"
    r"\bdatetime\.\w*(?:now|today)\(|\bdate\s+\+|\bTime\.now|\btime\.Now\(|\bEPOCHSECONDS\b|\bGet-Date\b|\bgetpid\(|\$\$)"
)
_SEEDED_RANDOM = re.compile(
    r"\brandom\.seed\(\s*[^)\s]|\brandom\.Random\(\s*[^)\s]|\b(?:mt_)?srand\(|\bseedrandom\(\s*[^)\s]|"
    r"\brand\.(?:Seed|NewSource)\(|\bRANDOM=\S|\bRandom\.new\(\s*\d|\bsrand\s+\S|math\.randomseed\("
)
_HASHED_CLOCK = re.compile(
    rf"\b(?:hashlib\.\w+|pbkdf2\w*|createHash\(|md5|sha\d+(?:sum|_hex)?|Digest::\w+|crc32)\b"
    rf"[\s\S]{{0,160}}?{_CLOCK_PATTERN}|"
    rf"{_CLOCK_PATTERN}[\s\S]{{0,200}}?\b(?:hashlib\.\w+|createHash|md5sum|sha\d+sum|md5|"
    rf"openssl\s+(?:dgst|md5|sha\d+))\b"
)
_STRONG_RANDOM = re.compile(
    r"\bsecrets\.\w+\(|urandom|SystemRandom|randomBytes|getRandomValues|randomUUID|uuid4|"
    r"\bopenssl\s+rand|/dev/random|SecureRandom|random_bytes|crypto/rand|\bhmac|totp|jwt",
    re.IGNORECASE,
)
"""Random values that cannot be repeated, or a signature, which may contain the time."""
_CODE_COMMENT = re.compile(r"^[ \t]*(?:#|//)[^\n]*", re.MULTILINE)


def check_weak_secrets(path: str, text: str, purpose: DeclaredPurpose) -> Iterator[ScanFinding]:
    if PurePosixPath(path).suffix.casefold() not in _CODE_SUFFIXES or not _GENERATES_SECRETS.search(
        purpose.summary
    ):
        return
    code = split_long_lines(_CODE_COMMENT.sub("", text[:MAX_SECRET_SCAN_CHARS]))
    found = _SEEDED_RANDOM.search(code)
    if found is None and not _STRONG_RANDOM.search(code):
        found = _HASHED_CLOCK.search(code)
    if found is not None:
        cause = "it generates secrets that can be predicted from the time or the seed"
        excerpt = " ".join(found[0].split())[:60]
        line = line_number(code, found.start())
        yield ScanFinding("capability", path, line, f"{cause}: {excerpt!r}")


MAX_HARM_SCAN_CHARS = 256 << 10
_COMMENT_LINE = re.compile(r"^[ \t]*(?:#(?!!)|//)[^\n]*", re.MULTILINE)


class _BlockedPattern(Value, frozen=True):
    cause: str
    all: tuple[str, ...]
    where: str = ""
    """Matched against the path of the file."""


@cache
def _load_blocked_patterns() -> tuple[_BlockedPattern, ...]:
    rows = read_pattern_file("always_blocked")["harm"]
    return msgspec.convert(rows, tuple[_BlockedPattern, ...])


@cache
def _make_pattern(pattern: str) -> LazyPattern:
    return LazyPattern(pattern.replace("\n", ""), re.IGNORECASE | re.MULTILINE)


def check_always_blocked(path: str, text: str, purpose: DeclaredPurpose) -> Iterator[ScanFinding]:
    """All patterns of a harm must match; a `thing` that the text mentions is allowed."""
    if PurePosixPath(path).suffix.casefold() in DOCUMENT_SUFFIXES + TABLE_SUFFIXES:
        return
    code = split_long_lines(_COMMENT_LINE.sub("", text[:MAX_HARM_SCAN_CHARS]))
    index = index_text(code)
    for harm in _load_blocked_patterns():
        if not _make_pattern(harm.where).search(path):
            continue
        patterns = [_make_pattern(each) for each in harm.all]
        if not all(index.may_match(each) for each in patterns):
            continue
        first = index.find_first(patterns[0])
        if first is None or not all(map(index.find_first, patterns[1:])):
            continue
        thing = first.groupdict().get("thing") or ""
        if thing and thing.casefold().rstrip("s") in purpose.prose:
            continue
        cause = f"{harm.cause}: {' '.join(first[0].split())[:80]!r}"
        yield ScanFinding("capability", path, line_number(code, first.start()), cause)
