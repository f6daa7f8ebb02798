"""What one thing that a script did among canaries says about it."""

import re

from hermes.core.messages import Value
from hermes.skills.scanner.bait import SECRETS, Bait
from hermes.skills.scanner.deed import far, host_in, speaks_of
from hermes.skills.scanner.purpose import Purpose
from hermes.skills.scanner.signs import signs

_STAYS = re.compile(r"(?:crontab|at|launchctl)\s(?!-l\b)|systemctl\b.*\benable\b")
_LOGS_IN = re.compile(r"(?:ssh|scp|sftp|rsync|ssh-add|git)\b")
_OWN_KEY = re.compile(r"-i[ =]?\S+")
"""Logging in with a key of one's own is what keys are for."""
_ROUTINE = re.compile(
    r"/(?:usr|lib|proc|sys|dev|etc/(?:ld|localtime|nsswitch|hosts|resolv|ssl))\b|\.pyc?\b"
)
_HOME = re.compile(r"/hermes-sandbox[\w.-]*/home/|(?:^|[\s'\"(=])~/")
_SENDING = re.compile(r"\s-(?:d|F|T)\b|--data|--form|--upload|--post|POST|PUT|<<< \S")
_HOSTS = re.compile(
    r"(?:https?|ftps?|tcp|udp|rsync|ldap|wss?)://(?:[^/@\s]*@)?([\w.-]+)|"
    r"(?<![\w./-])((?:\d{1,3}\.){3}\d{1,3})(?![\w.])|"
    r"\b(?:nc|ncat|netcat|telnet|ssh|scp|sftp|socat|ping|dig|host|nslookup|drill|getent)\b.*?[\s@:.]"
    r"([\w-]+\.(?:[\w-]+\.)*[a-z]{2,})\b|-connect\s+([\w.-]+)"
)
_LOCAL = re.compile(r"sample|127\.|localhost|::1|0\.0\.0\.0|/|$")


class Happened(Value, frozen=True):
    what: str
    text: str


class Verdict(Value, frozen=True):
    cause: str = ""
    blocks: bool = True


def judge(seen: Happened, bait: Bait, purpose: Purpose) -> Verdict:
    what, text = seen.what, seen.text
    if what == "gone":
        return Verdict(text)
    if what == "ran":
        return Verdict("it ran what it had fetched, unseen")
    if what in ("program", "connect", "command", "sent", "called") and bait.is_in(text):
        if _for_its_own_host(text, bait, purpose):
            return Verdict()
        return Verdict(f"it carried a secret off: {text[:80]!r}")
    if what in ("open", "trace", "command", "program") and (reached := _reached(text)):
        cause = "" if _is_its_matter(reached, purpose) else f"it reached for ~/{reached}"
        return Verdict(cause, blocks=not is_evidence(reached, purpose))
    if what == "changed" and _HOME.search(text) and not _its_own(text, purpose):
        return Verdict(f"it changed the home of its person: {text[:80]!r}")
    if what in ("connect", "called", "sent"):
        return _called(what, text, purpose)
    if what == "program":
        return _ran(text, purpose)
    return Verdict()


def _is_its_matter(path: str, purpose: Purpose) -> bool:
    """What a description speaks of may be read; what leaves the machine is judged before."""
    return f"~/{path}" in purpose.whole or speaks_of(path, purpose)


def is_evidence(path: str, purpose: Purpose) -> bool:
    """Whoever looks into a break-in collects what was typed; sending it off is judged apart."""
    return path.endswith("_history") and purpose.owns_up_to("teaches", shortly=True)


def _its_own(text: str, purpose: Purpose) -> bool:
    """Files in which programs keep what is theirs, or that the text names."""
    kept = re.search(r"/home/(\.(?:cache|local/(?:share|state))/|\.config/[\w-]+/[\w.-]+)", text)
    name = re.search(r"/home/([^\s'\",)]+)", text)
    return bool(kept) or (name is not None and f"~/{name[1]}" in purpose.whole)


def _for_its_own_host(text: str, bait: Bait, purpose: Purpose) -> bool:
    """A key of a service that goes to that service, which the text names: that is its use."""
    name = bait.variable_in(text).casefold()
    host = host_in(text) or re.sub(r"sample$", "", text.split(" ")[0])
    near = name == "" and host.startswith("127.0.0.1")
    if not host or not (near or purpose.names(host)):
        return False
    if not name:
        return text.count(bait.value) == text.count(bait.wanted) > 0
    return name in purpose.whole or any(word in host for word in name.split("_") if len(word) > 3)


def _reached(text: str) -> str:
    if _ROUTINE.match(text):
        return ""
    shown = _OWN_KEY.sub(" ", text) if _LOGS_IN.match(text) else text
    return next((path for path in SECRETS if f"/{path}" in shown), "")


def _called(what: str, text: str, purpose: Purpose) -> Verdict:
    first = re.search(r"\(\(('[^']*'|\"[^\"]*\")", text) if what == "called" else None
    text = first[1] if first else text
    host = host_in(text) or (re.sub(r"[^\w.:-]+", " ", text).split() or [""])[0]
    if what == "called" and not host_in(text):
        return Verdict()
    host = re.sub(r"sample$", "", host)
    named = bool(_LOCAL.match(host)) or purpose.names(host)
    return Verdict(f"it called {text[:60]}", blocks=not named)


def _ran(text: str, purpose: Purpose) -> Verdict:
    if _STAYS.match(text) and not purpose.owns_up_to("stays", shortly=True):
        return Verdict(f"it would stay behind: {text[:80]!r}")
    for host in (next(filter(None, found.groups())).casefold() for found in _HOSTS.finditer(text)):
        if not far(host) or purpose.names(host):
            continue
        if _SENDING.search(text) or host.replace(".", "").isdigit():
            return Verdict(f"it sent something to {host!r}, which its text does not name")
        usual = signs("places", "public")[0].pattern.fullmatch(host)
        owned = bool(usual) or purpose.owns_up_to("network", shortly=True)
        return Verdict(f"it called {host!r}, which its text does not name", blocks=not owned)
    return Verdict()
