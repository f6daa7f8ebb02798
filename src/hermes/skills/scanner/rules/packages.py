"""Checks the packages a skill installs: look-alike names, unknown indexes, install hooks."""

import ast
import posixpath
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import PurePosixPath

import msgspec

from hermes.skills.scanner.action import is_remote_host
from hermes.skills.scanner.finding import NpmManifest, ScanFinding, line_number
from hermes.skills.scanner.literal_search import find_first, find_matches
from hermes.skills.scanner.patterns import (
    load_pattern,
    read_popular_packages,
    replace_separators,
)
from hermes.skills.scanner.purpose import DeclaredPurpose
from hermes.skills.scanner.python.static_values import dotted_name, parse_python
from hermes.skills.scanner.shell_text import split_long_lines

MAX_REQUIREMENTS_CHARS = 64 << 10
_INSTALL_COMMAND = re.compile(
    r"(?:\b(?:pip[\d.]*|pipx|uv|poetry|conda|mamba|pdm|rye)\s+(?:pip\s+)?"
    r"(?:install|add|inject)|"
    r"\bnpm\s+(?:install|i|add)|\b(?:yarn|pnpm|bun)\s+add|"
    r"(?P<runner>\buvx\b|\buv\s+run\s+--with|\bnpx\b|\bpnpm\s+dlx))"
    r"(?P<arguments>(?:[ \t]+[^\s|;&`#]+)+)"
)
_OPTIONS_WITH_VALUE = {
    "-r", "-c", "-e", "-i", "--index-url", "--extra-index-url", "-t", "--target", "--python",
    "--prefix", "--registry", "--template", "--with", "-p", "--package", "-f", "--find-links",
    "--local-dir", "-n", "--name",
}  # fmt: skip
_PIP_DIRECT_URL = re.compile(
    r"(?:@|^)[ \t]*(?:git\+)?(?:http://|https?://(?!(?:github|gitlab)\.com/|files\.pythonhosted))\S+",
    re.MULTILINE,
)
_NPM_DIRECT_URL = re.compile(
    r"\"(?!url\"|homepage\"|bugs\"|repository\")[\w@/.-]+\"\s*:\s*\"(?:http://|https?://(?!github\.com/|registry\.npmjs)|git\+http|file:\.\./)[^\"]*\.?(?:tgz|git|tar\.gz|/)[^\"]*\""
)
_REQUIREMENT_LINE = re.compile(
    r"[A-Za-z0-9][\w.-]*(?:\[[\w, -]+\])?"
    r"(?P<pin>\s*(?:[=~!<>]=?=?)\s*[\w.*+!-]+(?:\s*,\s*[=~!<>]=?\s*[\w.*+!-]+)*)?"
    r"(?:\s*;[^\n]*|\s+#[^\n]*)?(?:\s*--hash=\S+)*\s*\\?"
)
_PACKAGE_NAME = re.compile(r"^(?:@[\w.-]+/)?([A-Za-z0-9][\w.-]*)")
_INLINE_SCRIPT_METADATA = re.compile(r"^# /// script\s*$(.*?)^# ///\s*$", re.MULTILINE | re.DOTALL)


def check_dependencies(
    path: str, text: str, own_modules: frozenset[str] = frozenset()
) -> Iterator[ScanFinding]:
    """`own_modules`: what its programs import from each other."""
    yield from _check_direct_urls(path, text)
    reported = set(own_modules) if path.endswith(".py") else set[str]()
    for line, name in find_required_packages(path, text):
        lookalike = find_lookalike(name)
        if lookalike and name not in reported:
            reported.add(name)
            cause = f"{name!r} looks like the well-known package {lookalike!r}, but is another one"
            yield ScanFinding("dependency", path, line, cause)


def _check_direct_urls(path: str, text: str) -> Iterator[ScanFinding]:
    """Packages that do not come from their registry."""
    name = PurePosixPath(path).name.casefold()
    if is_requirements_file(path, text) or name in ("pyproject.toml", "pipfile"):
        pattern = _PIP_DIRECT_URL
    elif name == "package.json":
        pattern = _NPM_DIRECT_URL
    else:
        return
    for found in pattern.finditer(text):
        cause = f"installing it fetches something from another source: {found[0].strip()[:80]!r}"
        yield ScanFinding("dependency", path, line_number(text, found.start()), cause)


def find_required_packages(path: str, text: str) -> Iterator[tuple[int, str]]:
    name = PurePosixPath(path).name.casefold()
    if is_requirements_file(path, text):
        for number, row in enumerate(text.splitlines(), 1):
            package = _PACKAGE_NAME.match(row.strip())
            if package and not row.startswith("-"):
                yield number, package[1]
    elif name == "package.json":
        yield from _parse_quoted_names(
            text,
            r"\"(?:dev|peer|optional)?[dD]ependencies\"\s*:\s*\{([^}]*)\}",
            r"\"([^\"]+)\"\s*:",
        )
    elif name in ("pyproject.toml", "pipfile", "environment.yml", "setup.cfg"):
        yield from _parse_quoted_names(
            text, r"dependencies\"?\s*[=:]\s*\[([^\]]*)\]", r"[\"']([A-Za-z0-9][\w.-]*)"
        )
    for found in _INLINE_SCRIPT_METADATA.finditer(text):
        line = line_number(text, found.start())
        yield from ((line, name) for name in re.findall(r"[\"']([A-Za-z0-9][\w.-]*)", found[1]))
    for found in find_matches(_INSTALL_COMMAND, text):
        line = line_number(text, found.start())
        names = _parse_install_arguments(found["arguments"])
        # A runner installs one package: the words after it are a command and its arguments.
        yield from ((line, name) for name in (islice(names, 1) if found["runner"] else names))
    if path.endswith(".py"):
        yield from (each for each in parse_python(text).imports() if "_" not in each[1])


def is_requirements_file(path: str, text: str) -> bool:
    """By its name, or because every line is valid for pip."""
    name = PurePosixPath(path).name.casefold()
    if re.fullmatch(r"(?:[\w-]*requirements[\w.-]*|constraints)\.(?:txt|in)", name):
        return True
    if not name.endswith((".txt", ".in", ".pip", ".lst")) or len(text) > MAX_REQUIREMENTS_CHARS:
        return False
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    rows = [_REQUIREMENT_LINE.fullmatch(line) for line in lines if not line.startswith("-")]
    options = any(re.match(r"--?[a-z][\w-]*[ =]", line) for line in lines)
    return bool(rows) and all(rows) and (options or any(row and row["pin"] for row in rows))


@lru_cache(maxsize=2_048)
def find_lookalike(name: str) -> str:
    """The well-known package with a similar name; empty for that package itself."""
    known = read_popular_packages()
    bare = replace_separators(name)
    if name in sys.stdlib_module_names:
        return ""
    if bare in known:
        real = known[bare]
        differs = replace_separators(name, "-") != replace_separators(real, "-")
        return real if differs and len(bare) >= 7 else ""
    if len(bare) < 5:
        return ""
    for other, real in known.items():
        if len(other) < 5 or abs(len(other) - len(bare)) > 2:
            continue
        distance = _edit_distance(bare, other)
        if distance == 1 or (distance == 2 and len(other) >= 10):
            return real
    return ""


def _parse_quoted_names(text: str, block: str, each: str) -> Iterator[tuple[int, str]]:
    for found in re.finditer(block, text):
        line = line_number(text, found.start())
        yield from ((line, name) for name in re.findall(each, found[1]))


def _parse_install_arguments(text: str) -> Iterator[str]:
    skip = False
    for word in text.split():
        word = word.strip("\"'")
        if skip or word.startswith((*"-./$<{[(", "git+", "http", "file:")):
            skip = not skip and word in _OPTIONS_WITH_VALUE
            continue
        found = _PACKAGE_NAME.match(word)
        if found and not word.startswith("@"):
            yield re.sub(r"\.whl$", "", found[1])


def _edit_distance(one: str, two: str) -> int:
    """The number of edits between two words, at most 3; swapped neighbours are one edit."""
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


MAX_SOURCE_SCAN_CHARS = 512 << 10
_URL_PATTERN = r"[\"']?(?P<at>https?://[^\s\"'`,;)\]}>]+)"
_INDEX_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        rf"--(?:(?:extra-|default-)?index(?:-url)?|find-links|pypi-url)[=\s,\"']+?{_URL_PATTERN}",
        r"--trusted-host[=\s,\"']+(?P<at>[\w-]+(?:\.[\w-]+)+)",
        rf"^[ \t]*(?:-i|-f)[ \t]+{_URL_PATTERN}",
        rf"\bpip[\d.]*\s+(?:install|download|wheel)\b[^\n]*\s-(?:i|f)\s+{_URL_PATTERN}",
        rf"\b(?:pip[_-])?(?:extra[_-])?index[_-]url[\"']?\s*[=:]\s*{_URL_PATTERN}",
        rf"\b(?:uv|pip)_\w*(?:index|find_links)\w*[\"']?\s*[=:,]\s*{_URL_PATTERN}",
        rf"\b(?:npm_config_registry|yarn_registry|npmRegistryServer|goproxy)[\"']?\s*[=:,]\s*{_URL_PATTERN}",
        rf"@[\w.-]+:registry\s*[=\s]\s*{_URL_PATTERN}",
        rf"\b(?:npm|npx|yarn|pnpm|bun)\b[^\n]*--registry[=\s]+{_URL_PATTERN}",
        rf"\b(?:pip[\d.]*|uv|npm|yarn|pnpm|poetry|bundle|conda)\s+config\s[^\n]*?\s{_URL_PATTERN}",
        rf"\bpoetry\s+source\s+add\s[^\n]*?{_URL_PATTERN}",
        rf"\bgem\s+(?:sources?\s+(?:-a|--add)|install\b[^\n]*--source)\s+{_URL_PATTERN}",
        rf"\[\[(?:tool\.(?:poetry\.source|uv\.index|pdm\.source)|source)\]\][^\[]*?\burl\s*=\s*{_URL_PATTERN}",
    )
)
_REGISTRY_SETTING = re.compile(
    rf"^[ \t]*[\"']?(?:registry|url)[\"']?\s*[=:\s]\s*{_URL_PATTERN}", re.M
)
_REGISTRY_FILES = re.compile(
    r"\.?(?:npmrc|yarnrc(?:\.yml)?|pip\.(?:conf|ini)|pypirc|condarc|gemrc)(?:\.\w+)?|bunfig\.toml"
)
_LOCK_FILES = re.compile(
    r"package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|uv\.lock|"
    r"poetry\.lock|pipfile\.lock"
)
_LOCKED_URL = re.compile(rf"\b(?:resolved|tarball|registry)[\"']?\s*[:= ]\s*{_URL_PATTERN}")
_INTEGRITY_ENTRY = re.compile(r"\"integrity\"\s*:\s*\"sha")
_RESOLVED_ENTRY = re.compile(r"\"resolved\"\s*:\s*\"https?://[^\"]+\.tgz")
_HASH_REMOVAL = re.compile(
    r"(?:\bsed\b|\bperl\b|\bjq\b|\bre\.sub\(|\.(?:replace|sub|gsub)\(|\bdel\b|\bgrep\s+-\w*v)[^\n]{0,100}"
    r"(?:\bintegrity\b|--hash\b|sha256:|sha512-)|--no-require-hashes|\bGOSUMDB=off|\bGONOSUMDB=[\"']?\*|"
    r"\bpop\(\s*[\"']integrity"
)
_PRIVATE_INDEX_WORDS = re.compile(
    r"\b(?:mirror|registr(?:y|ies)\b|package index|artifactory|nexus|devpi|verdaccio|air.?gap|"
    r"(?:private|internal|own) (?:packages?|pypi|npm|index))\w*"
)
_HASH_WORDS = re.compile(r"\b(?:hash|integrity|lock ?file|checksum)\w*")
_PLACEHOLDER_HOST = re.compile(
    r"[<$\[]|your|company|corp\b|\bexample\.(?:com|org|net)\b", re.IGNORECASE
)


def check_package_sources(path: str, text: str, purpose: DeclaredPurpose) -> Iterator[ScanFinding]:
    reported: set[str] = set()
    known = load_pattern("paths_and_hosts", "packages")
    code = split_long_lines(text[:MAX_SOURCE_SCAN_CHARS])
    for at, address in _find_index_urls(path, code):
        host = re.sub(r"^https?://(?:[^/@]*@)?", "", address).split("/")[0].split(":")[0].casefold()
        if host in reported or known.fullmatch(host) or not is_remote_host(host):
            continue
        if _PLACEHOLDER_HOST.search(address):
            continue
        reported.add(host)
        declared = bool(_PRIVATE_INDEX_WORDS.search(purpose.summary)) and purpose.names_host(host)
        cause = f"packages come from {host!r}, which is not a known index"
        yield ScanFinding("dependency", path, line_number(code, at), cause, not declared)
    if PurePosixPath(path).suffix not in (".md", ".markdown", ".rst"):
        yield from _check_hashes(path, code, purpose)


def _find_index_urls(path: str, code: str) -> Iterator[tuple[int, str]]:
    name = PurePosixPath(path).name.casefold()
    patterns = _INDEX_PATTERNS
    if _REGISTRY_FILES.fullmatch(name):
        patterns = (*_INDEX_PATTERNS, _REGISTRY_SETTING)
    elif _LOCK_FILES.fullmatch(name):
        patterns = (_LOCKED_URL,)
    for pattern in patterns:
        for found in find_matches(pattern, code):
            yield found.start(), next(each for each in found.groups() if each)


def _check_hashes(path: str, code: str, purpose: DeclaredPurpose) -> Iterator[ScanFinding]:
    """Hashes of packages that are removed or missing."""
    if (found := find_first(_HASH_REMOVAL, code)) and not _HASH_WORDS.search(purpose.summary):
        cause = f"it removes the hashes of packages: {' '.join(found[0].split())[:60]!r}"
        yield ScanFinding("dependency", path, line_number(code, found.start()), cause)
    if PurePosixPath(path).name.casefold() in ("package-lock.json", "npm-shrinkwrap.json"):
        hashed, fetched = len(_INTEGRITY_ENTRY.findall(code)), len(_RESOLVED_ENTRY.findall(code))
        if hashed < fetched:
            cause = f"{fetched - hashed} of {fetched} locked packages have no hash"
            yield ScanFinding("dependency", path, line_number(code, 0), cause)


_NPM_HOOKS = (
    "preinstall", "install", "postinstall", "prepare", "prepack", "preprepare", "postprepare",
    "prepublish", "prepublishOnly", "dependencies",
)  # fmt: skip
_INTERPRETERS = {
    "node", "nodejs", "deno", "bun", "tsx", "ts-node", "python", "python2", "python3", "ruby",
    "perl", "php", "sh", "bash", "zsh", "dash", "pwsh", "powershell",
}  # fmt: skip
_SUSPICIOUS_PROGRAMS = {
    "curl", "wget", "nc", "ncat", "ssh", "scp", "eval", "exec", "sudo", "crontab", "source", "dig",
    "openssl", "base64", "xxd", "chmod", "rm", "dlx",
}  # fmt: skip
_BUILD_PROGRAMS = {
    "git", "make", "cmake", "ninja", "meson", "cargo", "rustc", "go", "gcc", "cc", "g++", "clang",
    "pkg-config", "npm", "yarn", "pnpm", "protoc", "swig", "cython", "msgfmt", "nvcc",
    "llvm-config", "uname", "xcrun", "brew", "autoreconf", "sphinx-build", "pybabel",
}  # fmt: skip
_NPM_RUN = re.compile(r"\b(?:npm|pnpm|yarn|bun)\s+run(?:-script)?\s+(?P<name>[\w:.-]+)")
_COMMAND_CALL = re.compile(
    r"(?:os\.(?:system|popen|exec\w*|spawn\w*)|subprocess\.\w+|(?:Popen|check_call|check_output))$"
)
_BUILDS_PACKAGE = re.compile(
    r"\b(?:setuptools|distutils|skbuild|numpy\.distutils)\b|^\s*setup\(|__import__|importlib", re.M
)
"""Without it a `setup.py` in a package is a program like any other: no installation runs it."""
_NETWORK_CALL = re.compile(r"(?:urllib|requests|httpx|socket|http\.client|ftplib)\b|urlopen$")
_FILE_READ = re.compile(r"open\(|read_text\(|\.read\(\)|compile\(")


def check_install_hooks(path: str, text: str, skill_paths: frozenset[str]) -> Iterator[ScanFinding]:
    """`skill_paths`: files of the skill, which are checked separately when a hook runs them."""
    name = PurePosixPath(path).name.casefold()
    steps: Iterator[tuple[int, str, bool]] = iter(())
    if name == "package.json":
        steps = _find_npm_hooks(path, text, skill_paths)
    elif name == "setup.py" and ("/" not in path or _BUILDS_PACKAGE.search(text)):
        steps = _find_setup_calls(text)
    for line, source, usual in steps:
        cause = f"installing it runs {source[:80]!r}"
        yield ScanFinding("dependency", path, line, cause, not usual)


def _find_npm_hooks(
    path: str, text: str, skill_paths: frozenset[str]
) -> Iterator[tuple[int, str, bool]]:
    try:
        scripts = msgspec.json.decode(text, type=NpmManifest).scripts
    except msgspec.DecodeError:
        return
    folder = PurePosixPath(path).parent
    for hook in _NPM_HOOKS:
        if command := scripts.get(hook, ""):
            line = text[: max(0, text.find(f'"{hook}"'))].count("\n") + 1
            whole = _resolve_npm_scripts(command, scripts)
            yield line, command, _is_usual_step(whole, folder, skill_paths)


def _resolve_npm_scripts(command: str, scripts: Mapping[str, str], depth: int = 5) -> str:
    """With the scripts that `npm run NAME` starts in place of it."""

    def resolve(found: re.Match[str]) -> str:
        script = scripts.get(found["name"], "")
        return _resolve_npm_scripts(script, scripts, depth - 1) if script and depth else found[0]

    return _NPM_RUN.sub(resolve, command)


def _is_usual_step(command: str, folder: PurePosixPath, skill_paths: frozenset[str]) -> bool:
    """A build tool, or a file of the skill, which is checked separately."""
    if re.search(r"https?://|[`$]|\s-e\s|\s-c\s|(?<!\|)\|(?!\|)|>", command):
        return False
    try:
        steps = [shlex.split(step) for step in re.split(r"&&|\|\||;", command)]
    except ValueError:
        return False
    for words in steps:
        program = words[0].rpartition("/")[2] if words else ""
        if program in _SUSPICIOUS_PROGRAMS or set(words) & _SUSPICIOUS_PROGRAMS:
            return False
        local = words[0] if words and words[0].startswith(".") else ""
        if program in _INTERPRETERS or local:
            script = local or next((word for word in words[1:] if not word.startswith("-")), "")
            if posixpath.normpath(folder / script) not in skill_paths:
                return False
    return True


def _find_setup_calls(text: str) -> Iterator[tuple[int, str, bool]]:
    module = parse_python(text)
    if module.error:
        yield 1, "a setup.py that cannot be read", False
    for call in module.calls:
        name, source = dotted_name(call.func), ast.unparse(call)
        if _NETWORK_CALL.match(name) or name in ("eval", "__import__"):
            yield call.lineno, source, False
        elif name == "exec":
            yield call.lineno, source, bool(_FILE_READ.search(source))
        elif _COMMAND_CALL.match(name) and name not in ("subprocess.PIPE", "subprocess.DEVNULL"):
            yield call.lineno, source, _started_program(call) in _BUILD_PROGRAMS


def _started_program(call: ast.Call) -> str:
    """The program that is started; empty when it is known only at run time."""
    first = call.args[0] if call.args else None
    if isinstance(first, ast.List | ast.Tuple) and first.elts:
        first = first.elts[0]
    command = first.value if isinstance(first, ast.Constant) else None
    if not isinstance(command, str) or not command.strip() or re.search(r"[;|&`$]", command):
        return ""
    return command.split()[0].rpartition("/")[2]
