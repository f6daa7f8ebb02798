"""Runs the scripts of a foreign skill behind walls, among secrets that are bait."""

import re
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import PurePosixPath

from hermes.core.errors import ToolError
from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.skills.scanner.finding import Entry, Finding
from hermes.skills.scanner.shell_text import Passage, look_at_shell
from hermes.skills.scanner.watching import shim, watcher

Places = Callable[[Mapping[str, str]], AbstractAsyncContextManager[Environment]]
"""Opens a sandbox without network whose commands see these variables."""
SHIFTS = (0, 3 * 365 * 86400)
"""Now, and when a patient bomb would go off."""
SECONDS = 8
MOST = 24
_SHIMMED = (
    "curl", "wget", "nc", "ncat", "netcat", "socat", "ssh", "scp", "sftp", "rsync", "ftp", "telnet",
    "dig", "nslookup", "host", "ping", "crontab", "at", "systemctl", "launchctl", "mail",
    "sendmail", "sudo", "su", "docker", "kubectl", "aws", "gcloud", "date",
)  # fmt: skip
_BAIT = (
    ".ssh/id_rsa", ".ssh/id_ed25519", ".aws/credentials", ".netrc", ".git-credentials", ".npmrc",
    ".kube/config", ".bash_history", ".config/gh/hosts.yml", ".docker/config.json",
    ".gnupg/secring.gpg",
)  # fmt: skip
_STAYS = re.compile(r"\b(?:crontab|at|launchctl)\s|\bsystemctl\b.*\benable\b")
_LOGS_IN = re.compile(r"(?:ssh|scp|sftp|rsync|ssh-add|git)\b")
_OWN_KEY = re.compile(r"-i[ =]?\S+")
"""Logging in with a key of one's own is what keys are for."""
_ROUTINE = re.compile(
    r"/(?:usr|lib|proc|sys|dev|etc/(?:ld|localtime|nsswitch|hosts|resolv|ssl))\b|\.pyc?\b"
)


class Bait(Value, frozen=True):
    """Secrets of no worth: whoever carries one off has shown what he is."""

    value: str

    def variables(self) -> dict[str, str]:
        names = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "OPENAI_API_KEY", "DATABASE_PASSWORD")
        return {name: f"{self.value}-{number}" for number, name in enumerate(names)}


async def try_scripts(entries: Sequence[Entry], places: Places) -> list[Finding]:
    """What each script did. Raises `PlaceFailed` when there is no sandbox to try it in."""
    bait = Bait(f"canary-{secrets.token_hex(8)}")
    scripts = [entry for entry in entries if _runs(entry)][:MOST]
    said = "\n".join(entry.text for entry in entries if entry.path.endswith((".md", ".yaml")))
    found: list[Finding] = []
    for script in scripts:
        async with places(bait.variables()) as place:
            await _furnish(place, entries, bait)
            for shift in SHIFTS:
                log = await _watched(place, script, shift)
                found += _judged(script, log, bait, said)
            found += await _left_behind(place, script)
    return list(dict.fromkeys(found))


def _runs(entry: Entry) -> bool:
    suffix = PurePosixPath(entry.path).suffix
    return suffix in (".py", ".sh", ".bash") or (entry.executable and entry.data.startswith(b"#!"))


async def _furnish(place: Environment, entries: Sequence[Entry], bait: Bait) -> None:
    for path in _BAIT:
        await place.write(f"~/{path}", f"{bait.value}\n".encode())
    await place.write("~/.bashrc", b"# kept\n")
    for entry in entries:
        if not entry.link:
            await place.write(f"skill/{entry.path}", entry.data)
    await place.write("watch/python/sitecustomize.py", watcher())
    await place.write("watch/bin/curl", shim())
    names = " ".join(_SHIMMED)
    await place.run(
        f"chmod 755 watch/bin/curl; for n in {names}; do [ $n = curl ] || cp watch/bin/curl "
        "watch/bin/$n; done; touch watch/start"
    )


async def _watched(place: Environment, script: Entry, shift: int) -> str:
    await place.run("rm -f watch/log; touch watch/log")
    inner = shlex.quote(f"skill/{script.path}")
    python = script.path.endswith(".py") or b"python" in script.data[:60]
    run = f"python3 {inner}" if python else f"bash -x {inner} 19>>watch/log"
    wait = f"WATCH_SHIFT={shift}" if shift else "WATCH_SHIFT="
    await place.run(
        f'export {wait} WATCH_LOG="$PWD/watch/log" BASH_XTRACEFD=19 PYTHONPATH="$PWD/watch/python" '
        f'PYTHONDONTWRITEBYTECODE=1 PATH="$PWD/watch/bin:$PATH"; timeout {SECONDS} {run} '
        "</dev/null >/dev/null 2>&1 19>>watch/log",
        timeout=SECONDS + 5.0,
    )
    try:
        return (await place.read("watch/log", limit=2 << 20)).decode(errors="replace")
    except ToolError:
        return "gone\tthe log of what it does was removed"


def _judged(script: Entry, log: str, bait: Bait, said: str) -> Iterator[Finding]:
    for line in log.splitlines():
        what, _, text = line.partition("\t")
        if not text:
            what, text = "trace", line.lstrip("+ ")
        cause, blocks = _verdict(what, text, bait, said)
        if cause:
            yield _did(script, cause, blocks=blocks)
        if what in ("program", "command"):
            for each in look_at_shell(script.path, Passage(text, 1, False)):
                yield _did(script, f"it ran {text[:80]!r}: {each.cause}", blocks=each.blocks)


def _verdict(what: str, text: str, bait: Bait, said: str) -> tuple[str, bool]:
    if what == "gone":
        return text, True
    if bait.value in text and what in ("program", "connect", "command"):
        return f"it carried a secret off: {text[:80]!r}", True
    if what in ("open", "trace", "command", "program") and not _ROUTINE.match(text):
        text = _OWN_KEY.sub(" ", text) if _LOGS_IN.match(text) else text
        for path in _BAIT:
            if f"/{path}" in text:
                return f"it reached for ~/{path}", True
    if what == "connect":
        host = re.sub(r"[^\w.:-]+", " ", text).split() or [""]
        named = host[0] in said or host[0] in ("127.0.0.1", "localhost", "::1")
        return f"it called {text[:60]}", not named
    if what == "program" and _STAYS.match(text) and not text.startswith("crontab -l"):
        return f"it would stay behind: {text[:80]!r}", True
    return "", False


async def _left_behind(place: Environment, script: Entry) -> list[Finding]:
    """Files of the home that are new or other than before: a script has no business there."""
    seen = await place.run(
        'find "$HOME" -newer watch/start -type f ! -path "*/.cache/*" 2>/dev/null | head -20; '
        'grep -qx "# kept" "$HOME/.bashrc" && [ "$(wc -l < "$HOME/.bashrc")" = 1 ] || echo .bashrc'
    )
    dotted = [line for line in seen.output.splitlines() if re.search(r"(?:^|/)\.[\w]", line)]
    return [_did(script, f"it changed {line} in the home of its person") for line in dotted[:3]]


def _did(script: Entry, cause: str, *, blocks: bool = True) -> Finding:
    return Finding(kind="sandbox", file=script.path, line=1, cause=cause, blocks=blocks)
