"""Actions of a foreign skill, and whether its description declares them."""

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
    "background": "it leaves a program running in the background",
    "dynamic": "it runs code that is assembled or fetched at run time",
    "environment": "it takes all environment variables",
    "listens": "it lets others connect to it",
    "spies": "it watches keyboard, screen, clipboard or microphone",
    "agent": "it changes the settings of the agent",
    "trust": "it switches off a check of certificates or signatures",
    "names": "it changes name resolution",
    "access": "it grants access to others",
    "keys": "it contains a key that grants access to its owner",
    "privilege": "it changes the system beyond the files of the user",
    "tracks": "it removes records of what was done",
    "money": "it moves money",
    "proxy": "it redirects traffic",
    "workflows": "it changes what runs at a commit or in the build",
    "destroys": "it destroys data that cannot be restored",
    "asks": "it asks for a password",
    "floods": "it uses resources without limit",
    "shadows": "it takes the name of a well-known command",
    "unreadable": "it runs a command whose name is assembled at run time",
    "brings": "it fetches a program and runs it",
    "watched": "it checks whether it is observed",
    "unprotects": "it switches off data recovery",
    "hooks": "it puts itself between other programs and what they load",
}
_SERIOUS_KINDS = frozenset({
    "credentials", "stays", "spies", "agent", "trust", "access", "tracks", "money", "proxy",
    "workflows", "names", "destroys", "asks", "unprotects", "keys",
})  # fmt: skip
"""Must be declared in name, description or headings."""
_HARMLESS_KINDS = frozenset({"background"})
"""Shown, and asked for with the rest: what such a program does is judged by itself."""
_FOREIGN_DATA_KINDS = frozenset({
    "network", "brings", "listens", "credentials", "environment", "unreadable", "watched", "floods",
})  # fmt: skip
"""Without these, a program that names no other files assembles code from parts of the skill."""
_INEXCUSABLE_KINDS = frozenset({"floods", "shadows", "unreadable", "brings"})
"""No description excuses these."""
_COMMON_PATH_WORDS = frozenset({
    "home", "root", "local", "share", "data", "files", "file", "main", "user", "users", "tmp",
    "opt", "srv", "var", "usr", "etc", "lib", "mnt",
})  # fmt: skip
_LOCAL_HOST = re.compile(
    r"^(?:localhost|127\.|0\.0\.0\.0|::1|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|host\.docker|"
    r"[\w-]+$|.*\.(?:local|internal|localhost|svc|lan|invalid)$)"
)
_UNVERIFIED_TLS = re.compile(r"_create_unverified_context|verify(?:_ssl)?=False|ssl=False")
_INSECURE_FLAG = re.compile(r"--(?:insecure|no-?verify(?:-\w+)?|skip-(?:tls-)?verify)\b")
"""A user who has to pass such a flag knows what it does."""
_URL_HOST = re.compile(
    r"(?:https?|ftp|wss?|tcp|udp)://(?:[^/@\s\"']*@)?([A-Za-z0-9.?_-]+)", re.IGNORECASE
)


class SkillAction(Value, frozen=True):
    kind: str
    file: str
    line: int
    detail: str = ""
    removed_path: str = ""
    """The path that is removed."""
    host: str = ""
    """The remote host; `?` for parts known only at run time."""
    sends: bool = False
    """Local data is sent."""
    in_document: bool = False
    """In the document itself, where the reader sees it."""
    own_files: bool = False
    """Code that a program assembles, which names no file outside of the skill."""


def find_host(text: str) -> str:
    found = _URL_HOST.search(text)
    return found[1].casefold() if found else ""


def mentions_path(path: str, purpose: DeclaredPurpose) -> bool:
    """`~/.kube/config` in a skill about Kubernetes; sending it is checked elsewhere."""
    words = set(_path_words(path)) - {"config", "json", "credentials"}
    return any(word in purpose.summary for word in words)


def _path_words(path: str) -> list[str]:
    words = re.findall(r"[a-z]{3,}", path.casefold())
    return [word for word in words if word not in _COMMON_PATH_WORDS]


def is_remote_host(host_name: str) -> bool:
    """Return whether it names a host outside the local network."""
    known = host_name.strip("?.$ ")
    return "." in known and not _LOCAL_HOST.match(known)


def compare_with_purpose(
    actions: Iterable[SkillAction], purpose: DeclaredPurpose
) -> Iterator[ScanFinding]:
    """A finding for each action that the description does not declare."""
    reported: set[tuple[str, str]] = set()
    actions = list(actions)
    brings_data = any(each.kind in _FOREIGN_DATA_KINDS for each in actions if not each.in_document)
    for action in actions:
        network = action.kind == "network"
        loopback = network and re.match(r"localhost$|127\.|::1$", action.host)
        if loopback or _is_declared(action, purpose):
            continue
        undeclared = _undeclared_host if network else _undeclared_removal
        cause = undeclared(action, purpose)
        prominently = action.kind in _SERIOUS_KINDS and not action.in_document
        quiet = network and action.in_document
        if not cause and not quiet and not purpose.declares(action.kind, prominently=prominently):
            cause = _ACTION_DESCRIPTIONS[action.kind]
            if action.kind not in _INEXCUSABLE_KINDS:
                cause += ", and its description does not say so"
        if cause and (cause, action.file) not in reported:
            reported.add((cause, action.file))
            text = f"{cause}: {action.detail[:80]}" if action.detail else cause
            blocks = action.kind not in _HARMLESS_KINDS
            checked = action.own_files and not brings_data
            yield ScanFinding("capability", action.file, action.line, text, blocks and not checked)


def _is_declared(action: SkillAction, purpose: DeclaredPurpose) -> bool:
    """Return whether the text names its source, or is about exactly this."""
    if action.kind == "brings":
        return action.host != "?" and purpose.names_host(action.host, in_code=False)
    if action.kind == "trust" and _UNVERIFIED_TLS.search(action.detail):
        return bool(_INSECURE_FLAG.search(purpose.prose))
    return action.kind == "credentials" and mentions_path(action.detail, purpose)


def _undeclared_removal(action: SkillAction, purpose: DeclaredPurpose) -> str:
    """A removal outside the skill whose path is not mentioned."""
    path = action.removed_path
    if not path.startswith(("/", "~")) or re.match(r"/(?:tmp|dev/shm|var/tmp)/", path):
        return ""
    words = _path_words(path)
    if any(word.rstrip("s") in purpose.prose for word in words):
        return ""
    if not words and "$" in path + action.detail and path not in ("/", "~"):
        return ""
    return f"it removes {path!r}, which its text does not mention"


def _undeclared_host(action: SkillAction, purpose: DeclaredPurpose) -> str:
    """A host that receives data and is not mentioned."""
    host = action.host.strip(".")
    known = host.replace("?", "").strip(".")
    if not action.sends or not known or _LOCAL_HOST.match(host):
        return ""
    if purpose.names_host(known, in_code=not action.in_document):
        return ""
    if action.in_document and purpose.is_service(known):
        return ""
    return f"it sends something to {host!r}, which its text does not name"
