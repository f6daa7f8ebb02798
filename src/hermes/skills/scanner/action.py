"""Something that a foreign skill can do, and whether its own text owns up to it."""

import re
from collections.abc import Iterable, Iterator

from hermes.core.messages import Value
from hermes.skills.scanner.finding import ScanFinding
from hermes.skills.scanner.purpose import DeclaredPurpose

_ACTION_DESCRIPTIONS = {
    "credentials": "it reads credentials",
    "network": "it talks to the network",
    "delete": "it removes files",
    "stays": "it installs something that runs by itself",
    "dynamic": "it runs code that is put together or brought in while it runs",
    "environment": "it takes all environment variables",
    "listens": "it lets others connect to it",
    "spies": "it watches keyboard, screen, clipboard or microphone",
    "agent": "it changes what steers the agent",
    "trust": "it switches off a check of certificates or signatures",
    "names": "it changes where names lead",
    "access": "it lets somebody in",
    "keys": "it brings a key that lets its owner in",
    "privilege": "it changes the system beyond the person's own files",
    "tracks": "it removes records of what was done",
    "money": "it moves money",
    "proxy": "it leads traffic elsewhere",
    "workflows": "it changes what runs at a commit or in the build",
    "destroys": "it destroys data that does not come back",
    "asks": "it asks for a password",
    "floods": "it uses up the machine without end",
    "shadows": "it takes the name of a well-known command",
    "unreadable": "it runs a command whose name is made up on the way",
    "brings": "it fetches a program and runs it",
    "watched": "it looks whether somebody watches it",
    "unprotects": "it switches off what would bring lost data back",
    "hooks": "it puts itself between other programs and what they load",
}
_SERIOUS_KINDS = frozenset({"credentials", "stays", "spies", "agent", "trust", "access", "tracks",
                      "money", "proxy", "workflows", "names", "destroys", "asks",
                      "unprotects", "keys"})  # fmt: skip
"""Weighty ones: owned up to where nobody overlooks it, or not at all."""
_INEXCUSABLE_KINDS = frozenset({"floods", "shadows", "unreadable", "brings"})
"""No description excuses these."""
_COMMON_PATH_WORDS = frozenset({"home", "root", "local", "share", "data", "files", "file", "main", "user",
                     "users", "tmp", "opt", "srv", "var", "usr", "etc", "lib", "mnt"})  # fmt: skip
_LOCAL_HOST = re.compile(
    r"^(?:localhost|127\.|0\.0\.0\.0|::1|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|host\.docker|"
    r"[\w-]+$|.*\.(?:local|internal|localhost|svc|lan)$)"
)
_UNVERIFIED_TLS = re.compile(r"_create_unverified_context|verify(?:_ssl)?=False|ssl=False")
_INSECURE_FLAG = re.compile(r"--(?:insecure|no-?verify(?:-\w+)?|skip-(?:tls-)?verify)\b")
"""A person who has to pass such a flag knows what it does."""
_URL_HOST = re.compile(
    r"(?:https?|ftp|wss?|tcp|udp)://(?:[^/@\s\"']*@)?([A-Za-z0-9.?_-]+)", re.IGNORECASE
)


class SkillAction(Value, kw_only=True, frozen=True):
    kind: str
    file: str
    line: int
    detail: str = ""
    removed_path: str = ""
    """What is removed, as a path."""
    host: str = ""
    """Where something goes; `?` for what is only known later."""
    sends: bool = False
    """Something of the machine goes along."""
    in_document: bool = False
    """In the text itself, where the host is before everybody's eyes."""


def find_host(text: str) -> str:
    found = _URL_HOST.search(text)
    return found[1].casefold() if found else ""


def mentions_path(path: str, purpose: DeclaredPurpose) -> bool:
    """`~/.kube/config` in a skill about Kubernetes; what is sent off is judged elsewhere."""
    words = [
        word for word in re.findall(r"[a-z]{3,}", path.casefold()) if word not in _COMMON_PATH_WORDS
    ]
    return any(
        word in purpose.summary for word in words if word not in ("config", "json", "credentials")
    )


def is_remote_host(host_name: str) -> bool:
    """A real name of somebody else's machine."""
    known = host_name.strip("?.$ ")
    return "." in known and not _LOCAL_HOST.match(known)


def compare_with_purpose(
    actions: Iterable[SkillAction], purpose: DeclaredPurpose
) -> Iterator[ScanFinding]:
    """Whatever is done and not owned up to keeps a skill out, with the difference shown."""
    told: set[tuple[str, str]] = set()
    for deed in actions:
        cause = (
            _undeclared_host(deed, purpose)
            if deed.kind == "network"
            else _undeclared_removal(deed, purpose)
        )
        weighty = deed.kind in _SERIOUS_KINDS and not deed.in_document
        quiet = deed.kind == "network" and deed.in_document
        if _is_declared(deed, purpose) or (deed.kind == "network" and _is_loopback(deed.host)):
            continue
        if not cause and not quiet and not purpose.declares(deed.kind, prominently=weighty):
            cause = _ACTION_DESCRIPTIONS[deed.kind]
            if deed.kind not in _INEXCUSABLE_KINDS:
                cause += ", and its description does not say so"
        if cause and (cause, deed.file) not in told:
            told.add((cause, deed.file))
            shown = f"{cause}: {deed.detail[:80]}" if deed.detail else cause
            yield ScanFinding(kind="capability", file=deed.file, line=deed.line, cause=shown)


def _is_loopback(host: str) -> bool:
    return bool(re.match(r"localhost$|127\.|::1$", host))


def _is_declared(deed: SkillAction, purpose: DeclaredPurpose) -> bool:
    """Where it comes from is named, or it is the very thing that the text is about."""
    if deed.kind == "brings":
        return deed.host != "?" and purpose.names_host(deed.host, in_code=False)
    if deed.kind == "trust" and _UNVERIFIED_TLS.search(deed.detail):
        return bool(_INSECURE_FLAG.search(purpose.prose))
    return deed.kind == "credentials" and mentions_path(deed.detail, purpose)


def _undeclared_removal(deed: SkillAction, purpose: DeclaredPurpose) -> str:
    """Something outside the skill is removed, and nothing of its path is ever spoken of."""
    path = deed.removed_path
    if not path.startswith(("/", "~")) or re.match(r"/(?:tmp|dev/shm|var/tmp)/", path):
        return ""
    words = [w for w in re.findall(r"[a-z]{3,}", path.casefold()) if w not in _COMMON_PATH_WORDS]
    if any(word.rstrip("s") in purpose.prose for word in words):
        return ""
    if not words and "$" in path + deed.detail and path not in ("/", "~"):
        return ""
    return f"it removes {path!r}, of which its text does not speak"


def _undeclared_host(deed: SkillAction, purpose: DeclaredPurpose) -> str:
    """A host that is nowhere named and gets something from here."""
    host = deed.host.strip(".")
    if not deed.sends or not host or _LOCAL_HOST.match(host):
        return ""
    if host.replace("?", "").strip(".") == "":
        return ""
    if purpose.names_host(host.replace("?", "").strip("."), in_code=not deed.in_document):
        return ""
    return f"it sends something to {host!r}, which its text does not name"
