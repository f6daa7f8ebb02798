"""Finds hidden decisions, secrets that can be predicted, and patterns that are always blocked."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath

from hermes.core.messages import Value
from hermes.skills.scanner.finding import (
    DOCUMENT_SUFFIXES,
    TABLE_SUFFIXES,
    ScanFinding,
    line_number,
)
from hermes.skills.scanner.patterns import read_pattern_file
from hermes.skills.scanner.purpose import DeclaredPurpose
from hermes.skills.scanner.python.obfuscation import dotted_name
from hermes.skills.scanner.python.static_values import ConstantFolder, find_constants
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
    try:
        tree = ast.parse(text)
        found = [*_DigestComparisons(tree).found(), *_find_conditional_bypass(tree)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for line, cause in found:
        yield ScanFinding(kind="python", file=path, line=line, cause=cause)


class _DigestComparisons:
    """Comparisons of digests with fixed values in one module."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree, self._constants = tree, find_constants(tree)
        self._digests = {
            node.targets[0].id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and _DIGEST_CALL.search(ast.unparse(node.value))
        }
        self._assigned = {
            node.targets[0].id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }

    def found(self) -> Iterator[tuple[int, str]]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and dotted_name(node.func).endswith("startswith"):
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
        digest = next((self._digests[name] for name in names if name in self._digests), None)
        return f"{text} = {ast.unparse(digest)}" if digest is not None else ""

    def _fixed(self, node: ast.AST, depth: int = 0) -> bool:
        """Whether it is a literal digest, a part of one, or a collection of them."""
        if isinstance(node, ast.Name) and depth < 3 and node.id in self._assigned:
            return self._fixed(self._assigned[node.id], depth + 1)
        if isinstance(node, ast.Set | ast.List | ast.Tuple | ast.Dict):
            items = node.keys if isinstance(node, ast.Dict) else node.elts
            return bool(items) and all(
                each is not None and self._fixed(each, depth + 1) for each in items
            )
        if isinstance(node, ast.Call) and dotted_name(node.func) in ("set", "frozenset", "tuple"):
            return any(self._fixed(each, depth + 1) for each in node.args)
        value = ConstantFolder(self._constants).fold(node)
        if isinstance(value, int):
            return abs(value) > 1 << 16
        return isinstance(value, str) and bool(_HEX_DIGEST.fullmatch(value))


def _find_conditional_bypass(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """A check that is left out under a condition."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.If) or _DECLARED_SWITCH.search(ast.unparse(node.test)):
            continue
        inside = "\n".join(ast.unparse(each) for each in node.body)
        flat = not any(isinstance(each, ast.If | ast.FunctionDef) for each in node.body)
        if (
            flat
            and (off := _DISABLED_CHECK.search(inside))
            and "__name__" not in ast.unparse(node.test)
        ):
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
    for pattern in (
        (_SEEDED_RANDOM,) if _STRONG_RANDOM.search(code) else (_SEEDED_RANDOM, _HASHED_CLOCK)
    ):
        if found := pattern.search(code):
            line = line_number(code, found.start())
            cause = "it generates secrets that can be predicted from the time or the seed"
            excerpt = " ".join(found[0].split())[:60]
            yield ScanFinding(
                kind="capability", file=path, line=line, cause=f"{cause}: {excerpt!r}"
            )
            return


MAX_HARM_SCAN_CHARS = 256 << 10
_COMMENT_LINE = re.compile(r"^[ \t]*(?:#(?!!)|//)[^\n]*", re.MULTILINE)


class _BlockedPattern(Value, frozen=True):
    cause: str
    all: tuple[re.Pattern[str], ...]
    where: re.Pattern[str]
    """Matched against the path of the file."""


@cache
def _load_blocked_patterns() -> tuple[_BlockedPattern, ...]:
    return tuple(
        _BlockedPattern(
            row["cause"],
            tuple(_compile_pattern(each) for each in row["all"]),
            _compile_pattern(row.get("where", "")),
        )
        for row in read_pattern_file("always_blocked")["harm"]
    )


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("\n", ""), re.IGNORECASE | re.MULTILINE)


def check_always_blocked(path: str, text: str, purpose: DeclaredPurpose) -> Iterator[ScanFinding]:
    """All patterns of a harm must match; a `thing` that the text mentions is allowed."""
    if PurePosixPath(path).suffix.casefold() in DOCUMENT_SUFFIXES + TABLE_SUFFIXES:
        return
    code = split_long_lines(_COMMENT_LINE.sub("", text[:MAX_HARM_SCAN_CHARS]))
    for harm in _load_blocked_patterns():
        if not harm.where.search(path):
            continue
        matches = [pattern.search(code) for pattern in harm.all]
        first = matches[0]
        if first is None or not all(matches):
            continue
        thing = first.groupdict().get("thing") or ""
        if thing and thing.casefold().rstrip("s") in purpose.prose:
            continue
        line = line_number(code, first.start())
        excerpt = " ".join(first[0].split())[:80]
        cause = f"{harm.cause}: {excerpt!r}"
        yield ScanFinding(kind="capability", file=path, line=line, cause=cause)
