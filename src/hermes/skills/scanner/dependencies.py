"""Packages that a foreign skill wants: names that are nearly those of well-known ones."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from hermes.skills.scanner.finding import Finding

_INSTALL = re.compile(
    r"(?:\b(?:pip[\d.]*|pipx|uv|poetry|conda|mamba|pdm|rye)\s+(?:pip\s+)?"
    r"(?:install|add|inject)|"
    r"\buvx\b|"
    r"\buv\s+run\s+--with|\bnpm\s+(?:install|i|add)|\b(?:yarn|pnpm|bun)\s+add|\bnpx\b|\bpnpm\s+dlx)"
    r"((?:[ \t]+[^\s|;&`#]+)+)"
)
_VALUED = {"-r", "-c", "-e", "-i", "--index-url", "--extra-index-url", "-t", "--target", "--python",
           "--prefix", "--registry", "--template", "--with", "-p", "--package", "-f",
           "--find-links", "--local-dir", "-n", "--name"}  # fmt: skip
_PIP_ELSEWHERE = re.compile(
    r"(?:@|^)[ \t]*(?:git\+)?(?:http://|https?://(?!(?:github|gitlab)\.com/|files\.pythonhosted))\S+",
    re.MULTILINE,
)
_NPM_ELSEWHERE = re.compile(
    r"\"[\w@/.-]+\"\s*:\s*\"(?:http://|https?://(?!github\.com/|registry\.npmjs)|git\+http|file:\.\./)[^\"]*\.?(?:tgz|git|tar\.gz|/)[^\"]*\""
)
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][\w.-]*(?:\[[\w, -]+\])?"
    r"(?P<pin>\s*(?:[=~!<>]=?=?)\s*[\w.*+!-]+(?:\s*,\s*[=~!<>]=?\s*[\w.*+!-]+)*)?"
    r"(?:\s*;[^\n]*|\s+#[^\n]*)?(?:\s*--hash=\S+)*\s*\\?"
)
_NAME = re.compile(r"^(?:@[\w.-]+/)?([A-Za-z0-9][\w.-]*)")
LONGEST_LIST = 64 << 10
_INLINE = re.compile(r"^# /// script\s*$(.*?)^# ///\s*$", re.MULTILINE | re.DOTALL)


@cache
def popular() -> dict[str, str]:
    """Well-known names, by the name without separators."""
    text = (Path(__file__).parent / "popular.txt").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return {_bare(name): name for line in lines for name in line.split()}


def look_at_dependencies(path: str, text: str) -> Iterator[Finding]:
    yield from _sources(path, text)
    told: set[str] = set()
    for line, name in wanted(path, text):
        near = lookalike(name)
        if near and name not in told:
            told.add(name)
            cause = f"{name!r} is nearly the well-known package {near!r}, and is not it"
            yield Finding(kind="dependency", file=path, line=line, cause=cause)


def _sources(path: str, text: str) -> Iterator[Finding]:
    """Packages from elsewhere than their registry."""
    name = PurePosixPath(path).name.casefold()
    patterns: dict[str, tuple[re.Pattern[str], ...]] = {
        "package.json": (_NPM_ELSEWHERE,),
    }
    if is_requirements(path, text) or name in ("pyproject.toml", "pipfile"):
        patterns[name] = (_PIP_ELSEWHERE,)
    for pattern in patterns.get(name, ()):
        for found in pattern.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            shown = found[0].strip()[:80]
            cause = f"installing it brings in something from elsewhere: {shown!r}"
            yield Finding(kind="dependency", file=path, line=line, cause=cause)


def wanted(path: str, text: str) -> Iterator[tuple[int, str]]:
    name = PurePosixPath(path).name.casefold()
    if is_requirements(path, text):
        yield from _listed(text)
    elif name == "package.json":
        yield from _quoted(
            text,
            r"\"(?:dev|peer|optional)?[dD]ependencies\"\s*:\s*\{([^}]*)\}",
            r"\"([^\"]+)\"\s*:",
        )
    elif name in ("pyproject.toml", "pipfile", "environment.yml", "setup.cfg"):
        yield from _quoted(
            text, r"dependencies\"?\s*[=:]\s*\[([^\]]*)\]", r"[\"']([A-Za-z0-9][\w.-]*)"
        )
    for found in _INLINE.finditer(text):
        around = found[1]
        for each in re.finditer(r"[\"']([A-Za-z0-9][\w.-]*)", around):
            yield text.count("\n", 0, found.start()) + 1, each[1]
    for found in _INSTALL.finditer(text):
        yield from ((text.count("\n", 0, found.start()) + 1, each) for each in _words(found[1]))
    if path.endswith(".py"):
        yield from _imports(text)


def is_requirements(path: str, text: str) -> bool:
    """By its name, or because every line of it is one that pip understands."""
    name = PurePosixPath(path).name.casefold()
    if re.fullmatch(r"(?:[\w-]*requirements[\w.-]*|constraints)\.(?:txt|in)", name):
        return True
    if not name.endswith((".txt", ".in", ".pip", ".lst")) or len(text) > LONGEST_LIST:
        return False
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    rows = [_REQUIREMENT.fullmatch(line) for line in lines if not line.startswith("-")]
    options = any(re.match(r"--?[a-z][\w-]*[ =]", line) for line in lines)
    return bool(rows) and all(rows) and (options or any(row and row["pin"] for row in rows))


def lookalike(name: str) -> str:
    """The well-known package that a name may be taken for; empty when it is one, or like none."""
    known = popular()
    plain = re.sub(r"[-_.]+", "-", name.casefold())
    bare = _bare(plain)
    if name in sys.stdlib_module_names:
        return ""
    if bare in known:
        real = known[bare]
        return real if _separated(plain) != _separated(real) and len(bare) >= 7 else ""
    if len(bare) < 5:
        return ""
    for other, real in known.items():
        if len(other) < 5 or abs(len(other) - len(bare)) > 2:
            continue
        distance = _distance(bare, other)
        if distance == 1 or (distance == 2 and len(other) >= 10):
            return real
    return ""


def _bare(name: str) -> str:
    return re.sub(r"[-_.]+", "", name.casefold())


def _separated(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.casefold())


def _listed(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        found = _NAME.match(line.strip())
        if found and not line.startswith("-"):
            yield number, found[1]


def _quoted(text: str, block: str, each: str) -> Iterator[tuple[int, str]]:
    for found in re.finditer(block, text):
        line = text.count("\n", 0, found.start()) + 1
        yield from ((line, name) for name in re.findall(each, found[1]))


def _words(text: str) -> Iterator[str]:
    skip = False
    for word in text.split():
        word = word.strip("\"'")
        if skip or word.startswith(
            ("-", ".", "/", "$", "<", "git+", "http", "file:", "{", "[", "(")
        ):
            skip = not skip and word in _VALUED
            continue
        found = _NAME.match(word)
        if found and not word.startswith("@"):
            yield re.sub(r"\.whl$", "", found[1])


def _imports(text: str) -> Iterator[tuple[int, str]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                (node.lineno, each.name.split(".")[0])
                for each in node.names
                if "_" not in each.name
            )
        elif (
            isinstance(node, ast.ImportFrom)
            and node.module
            and not node.level
            and "_" not in node.module
        ):
            yield node.lineno, node.module.split(".")[0]


def _distance(one: str, two: str) -> int:
    """Edits between two words; neighbours that changed places are one edit. At most 3."""
    before_last: list[int] = []
    last = list(range(len(two) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(two, 1):
            cost = min(last[j] + 1, row[-1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == two[j - 2] and one[i - 2] == b:
                cost = min(cost, before_last[j - 2] + 1)
            row.append(cost)
        before_last, last = last, row
    return min(last[-1], 3)
