"""Where packages come from: an index of strangers, in whatever file or option it stands."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes.skills.scanner.deed import far
from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.purpose import Purpose
from hermes.skills.scanner.shell_text import bounded
from hermes.skills.scanner.signs import signs

LARGEST = 512 << 10
_URL = r"[\"']?(?P<at>https?://[^\s\"'`,;)\]}>]+)"
_ANYWHERE = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        rf"--(?:(?:extra-|default-)?index(?:-url)?|find-links|pypi-url)[=\s,\"']+?{_URL}",
        r"--trusted-host[=\s,\"']+(?P<at>[\w-]+(?:\.[\w-]+)+)",
        rf"^[ \t]*(?:-i|-f)[ \t]+{_URL}",
        rf"\bpip[\d.]*\s+(?:install|download|wheel)\b[^\n]*\s-(?:i|f)\s+{_URL}",
        rf"\b(?:pip[_-])?(?:extra[_-])?index[_-]url[\"']?\s*[=:]\s*{_URL}",
        rf"\b(?:uv|pip)_\w*(?:index|find_links)\w*[\"']?\s*[=:,]\s*{_URL}",
        rf"\b(?:npm_config_registry|yarn_registry|npmRegistryServer|goproxy)[\"']?\s*[=:,]\s*{_URL}",
        rf"@[\w.-]+:registry\s*[=\s]\s*{_URL}",
        rf"\b(?:npm|npx|yarn|pnpm|bun)\b[^\n]*--registry[=\s]+{_URL}",
        rf"\b(?:pip[\d.]*|uv|npm|yarn|pnpm|poetry|bundle|conda)\s+config\s[^\n]*?\s{_URL}",
        rf"\bpoetry\s+source\s+add\s[^\n]*?{_URL}",
        rf"\bgem\s+(?:sources?\s+(?:-a|--add)|install\b[^\n]*--source)\s+{_URL}",
        rf"\[\[(?:tool\.(?:poetry\.source|uv\.index|pdm\.source)|source)\]\][^\[]*?\burl\s*=\s*{_URL}",
    )
)
_SETTING = re.compile(rf"^[ \t]*[\"']?(?:registry|url)[\"']?\s*[=:\s]\s*{_URL}", re.M)
_SETTINGS = re.compile(
    r"\.?(?:npmrc|yarnrc(?:\.yml)?|pip\.(?:conf|ini)|pypirc|condarc|gemrc)(?:\.\w+)?|bunfig\.toml"
)
_LOCKS = re.compile(
    r"package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|uv\.lock|"
    r"poetry\.lock|pipfile\.lock"
)
_LOCKED = re.compile(rf"\b(?:resolved|tarball|registry|url)[\"']?\s*[:= ]\s*{_URL}")
_HASHED = re.compile(r"\"integrity\"\s*:\s*\"sha")
_FETCHED = re.compile(r"\"resolved\"\s*:\s*\"https?://[^\"]+\.tgz")
_STRIPS = re.compile(
    r"(?:\bsed\b|\bperl\b|\bjq\b|\bre\.sub\(|\.(?:replace|sub|gsub)\(|\bdel\b|\bgrep\s+-\w*v)[^\n]{0,100}"
    r"(?:\bintegrity\b|--hash\b|sha256:|sha512-)|--no-require-hashes|\bGOSUMDB=off|\bGONOSUMDB=[\"']?\*|"
    r"\bpop\(\s*[\"']integrity"
)
_OWNED = re.compile(
    r"\b(?:mirror|registr(?:y|ies)\b|package index|artifactory|nexus|devpi|verdaccio|air.?gap|"
    r"(?:private|internal|own) (?:packages?|pypi|npm|index))\w*"
)
_HASHES = re.compile(r"\b(?:hash|integrity|lock ?file|checksum)\w*")
_HELD_OPEN = re.compile(r"[<$\[]|your|company|corp\b|\bexample\.(?:com|org|net)\b", re.IGNORECASE)


def look_at_sources(path: str, text: str, purpose: Purpose) -> Iterator[Finding]:
    told: set[str] = set()
    code = bounded(text[:LARGEST])
    for at, address in _named(path, code):
        host = re.sub(r"^https?://(?:[^/@]*@)?", "", address).split("/")[0].split(":")[0].casefold()
        if host in told or not _is_strange(host, address):
            continue
        told.add(host)
        owned = bool(_OWNED.search(purpose.short)) and purpose.names(host)
        cause = f"packages are to come from {host!r}, for which nobody vouches"
        yield _found(path, code, at, cause, blocks=not owned)
    if PurePosixPath(path).suffix not in (".md", ".markdown", ".rst"):
        yield from _unhashed(path, code, purpose)


def _named(path: str, code: str) -> Iterator[tuple[int, str]]:
    name = PurePosixPath(path).name.casefold()
    patterns = _ANYWHERE
    if _SETTINGS.fullmatch(name):
        patterns = (*_ANYWHERE, _SETTING)
    elif _LOCKS.fullmatch(name):
        patterns = (_LOCKED,)
    for pattern in patterns:
        for found in pattern.finditer(code):
            yield found.start(), next(each for each in found.groups() if each)


def _is_strange(host: str, address: str) -> bool:
    known = signs("places", "packages")[0].pattern.fullmatch(host)
    return far(host) and not known and not _HELD_OPEN.search(address)


def _unhashed(path: str, code: str, purpose: Purpose) -> Iterator[Finding]:
    """What would show that a package was exchanged is taken away."""
    if (found := _STRIPS.search(code)) and not _HASHES.search(purpose.short):
        cause = f"it takes the hashes off packages: {' '.join(found[0].split())[:60]!r}"
        yield _found(path, code, found.start(), cause)
    if PurePosixPath(path).name.casefold() in ("package-lock.json", "npm-shrinkwrap.json"):
        hashed, fetched = len(_HASHED.findall(code)), len(_FETCHED.findall(code))
        if hashed < fetched:
            cause = f"{fetched - hashed} of {fetched} locked packages have no hash"
            yield _found(path, code, 0, cause)


def _found(path: str, code: str, at: int, cause: str, *, blocks: bool = True) -> Finding:
    line = code.count("\n", 0, at) + 1
    return Finding(kind="dependency", file=path, line=line, cause=cause, blocks=blocks)
