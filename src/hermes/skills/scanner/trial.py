"""Runs the scripts of a foreign skill behind walls, among secrets that are bait."""

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import anyio

from hermes.core.errors import ToolError
from hermes.core.protocols import Environment
from hermes.skills.scanner.bait import PAPERS, SECRETS, Bait
from hermes.skills.scanner.deed import speaks_of
from hermes.skills.scanner.finding import Entry, Finding
from hermes.skills.scanner.purpose import Purpose, purpose_of
from hermes.skills.scanner.python_words import SECRET_NAME
from hermes.skills.scanner.shell_text import Passage, look_at_shell
from hermes.skills.scanner.verdict import Happened, is_evidence, judge
from hermes.skills.scanner.watching import driver, node, shell, shim, watcher
from hermes.skills.scanner.ways import Way, ways_of

_STEERS = re.compile(
    r"(?:^|/)\.(?!local/(?:share|state)/|config/[\w-]+/[\w-]+\.(?:json|ya?ml|toml)$|cache/)\w"
)
"""Hidden files, but for those in which programs keep their own."""
_AGENTS = frozenset({"hermes", "claude", "cursor", "codex", "gemini", "config", "local", "gnupg"})
Places = Callable[[Mapping[str, str]], AbstractAsyncContextManager[Environment]]
"""Opens a sandbox without network whose commands see these variables."""
GUISES = (
    "WATCH_SHIFT= WATCH_HOST=anna-laptop WATCH_DOMAIN=corp.acme.com WATCH_USER=anna USER=anna "
    "LOGNAME=anna HOSTNAME=anna-laptop TERM=xterm-256color DISPLAY=:0 LANG=en_US.UTF-8 SHLVL=2",
    f"WATCH_SHIFT={3 * 365 * 86400} WATCH_HOST=prod-db-1 WATCH_DOMAIN=prod.acme.com "
    "WATCH_USER=root USER=root LOGNAME=root HOSTNAME=prod-db-1 CI=true GITHUB_ACTIONS=true "
    "TERM=xterm-256color TZ=Europe/Berlin WATCH_CHANCE=1",
)
"""A developer's machine, now; and years ahead a server, as root, in a build: what waits for one of
them goes off there."""
MOST_LINES = 2000
"""Of what a script did; one that goes round without end says nothing new after these."""
OFTEN = 24
"""So many times each is called, one after the other: some count their uses."""
SECONDS = 4
TOGETHER = 60.0
_SHIMMED = (
    "curl", "wget", "nc", "ncat", "netcat", "socat", "ssh", "scp", "sftp", "rsync", "ftp", "telnet",
    "dig", "nslookup", "host", "ping", "crontab", "at", "systemctl", "launchctl", "mail", "sleep",
    "sendmail", "sudo", "su", "docker", "kubectl", "aws", "gcloud", "date", "hostname", "whoami",
    "gh", "npm", "pip", "pip3", "apt-get", "brew", "osascript", "gpg", "security", "git", "xclip",
    "pbpaste", "uptime", "nproc", "systemd-detect-virt", "id", "uname", "who", "dmidecode",
    "dnsdomainname", "cat", "grep", "head", "openssl", "drill", "resolvectl", "az", "rclone",
    "getent",
)  # fmt: skip


async def try_scripts(entries: Sequence[Entry], places: Places) -> list[Finding]:
    """What each script did. Raises `PlaceFailed` when there is no sandbox to try it in."""
    bait = Bait(secrets.token_hex(12))
    purpose = purpose_of(entries)
    found: list[Finding] = []
    ways = ways_of(entries)
    with anyio.move_on_after(TOGETHER) as scope:
        for way in ways:
            for guise in GUISES:
                async with places(bait.variables()) as place:
                    await _furnish(place, entries, way, bait)
                    given = "".join(f" {name}={_wish(name, bait)}" for name in way.wants)
                    log = await _watched(place, way, f"{guise} WATCH_BAIT={bait.value}{given}")
                    found += _judged(way, log, bait, purpose)
                    found += await _left_behind(place, way, purpose)
    if scope.cancelled_caught:
        found.append(_did(ways[0], "its scripts take too long to be tried", blocks=False))
    return list(dict.fromkeys(found))


async def _furnish(place: Environment, entries: Sequence[Entry], way: Way, bait: Bait) -> None:
    for path in (*SECRETS, *PAPERS):
        text = "kept\n" if path in PAPERS else f"{bait.value}\n"
        await place.write(f"~/{path}", text.encode())
    for entry in entries:
        if not entry.link:
            await place.write(f"skill/{entry.path}", entry.data)
    await place.write("watch/python/sitecustomize.py", watcher())
    await place.write("watch/driver.py", driver())
    await place.write("watch/bin/curl", shim())
    await place.write("watch/shell", shell())
    await place.write("watch/node.cjs", node())
    await place.write("watch/steps.sh", way.script.encode())
    for name in {"notes.txt", *_samples(way)}:
        await place.write(f"sample/{name}", _sample(name, _columns(way)))
    names = " ".join(_SHIMMED)
    # Read times set back: whatever reads a secret, in whatever language, moves them.
    await place.run(
        f"chmod 755 watch/bin/curl; for n in {names}; do [ $n = curl ] || cp watch/bin/curl "
        'watch/bin/$n; done; find "$HOME" -type f -exec touch -a -d 2001-01-01 {} +; '
        "touch watch/start"
    )


def _wish(name: str, bait: Bait) -> str:
    """What a person would put into a variable of that name."""
    if SECRET_NAME.search(name):
        return bait.wanted
    return "http://127.0.0.1:9" if re.search(r"URL|HOST|ENDPOINT|ADDR|SERVER", name) else "sample"


def _samples(way: Way) -> set[str]:
    return {each for each in re.findall(r"sample/([\w.-]+)", " ".join(way.given)) if each[0] != "."}


def _columns(way: Way) -> list[str]:
    """Words that a script is given beside its files are often the columns that it looks for."""
    words = re.findall(r"(?<![\w./-])[a-z]\w{1,20}(?![\w./-])", " ".join(way.given))
    return ["a", "b", *dict.fromkeys(words)][:8]


def _sample(name: str, columns: list[str]) -> bytes:
    if name.endswith((".json", ".jsonl")):
        return b'{"a": 1, "items": [1, 2]}\n'
    if name.endswith((".yaml", ".yml")):
        return b"a: 1\nitems: [1, 2]\n"
    between = "\t" if name.endswith(".tsv") else ","
    values = [str(number) for number, _ in enumerate(columns, 1)]
    return f"{between.join(columns)}\n{between.join(values)}\n".encode()


async def _watched(place: Environment, way: Way, guise: str) -> str:
    given = [*way.given, "sample sample/notes.txt", "sample/notes.txt sample"]
    calls = [f"{way.command} {each} </dev/null" for each in given]
    again = f"for n in {{2..{OFTEN}}}; do [ $SECONDS -ge 2 ] && break; {calls[0]}; done"
    if not way.counts:
        again = ""
    if "driver.py" in way.command:
        # It goes through them all, again and again, within one process.
        await place.write("watch/given", "\n".join(given).encode())
        calls, again = [way.command], ""
    await place.run("rm -f watch/log; touch watch/log")
    await place.write("watch/all.sh", "\n".join([*calls, again, ""]).encode())
    await place.run(
        f'export {guise} WATCH_LOG="$PWD/watch/log" BASH_XTRACEFD=19 '
        f'WATCH_AGAIN={OFTEN if way.counts else 1} WATCH_PLACE="$PWD/watch" '
        f'BASH_ENV="$PWD/watch/shell" NODE_OPTIONS="--require $PWD/watch/node.cjs" '
        f'PYTHONPATH="$PWD/watch/python" PYTHONDONTWRITEBYTECODE=1 '
        f'PATH="$PWD/watch/bin:$PATH"; timeout -s KILL {SECONDS} bash watch/all.sh '
        "</dev/null >/dev/null 2>&1 19>>watch/log",
        timeout=SECONDS + 5.0,
    )
    try:
        return (await place.read("watch/log", limit=2 << 20)).decode(errors="replace")
    except ToolError:
        return "gone\tthe log of what it does was removed"


def _judged(way: Way, log: str, bait: Bait, purpose: Purpose) -> Iterator[Finding]:
    for line in list(dict.fromkeys(log.splitlines()))[:MOST_LINES]:
        what, _, text = line.partition("\t")
        if not text:
            what, text = "trace", line.lstrip("+ ")
        verdict = judge(Happened(what, text), bait, purpose)
        if verdict.cause:
            yield _did(way, verdict.cause, blocks=verdict.blocks)
        if what in ("program", "command"):
            for each in look_at_shell(way.file, Passage(text, 1, False)):
                yield _did(way, f"it ran {text[:80]!r}: {each.cause}", blocks=each.blocks)


async def _left_behind(place: Environment, way: Way, purpose: Purpose) -> list[Finding]:
    """Secrets that were read, and files of the home that are new or other than before."""
    papers = " ".join(f'"$HOME/{path}"' for path in PAPERS)
    seen = await place.run(
        'find "$HOME" -newer watch/start -type f ! -path "*/.cache/*" 2>/dev/null | head -20; '
        f'for f in {papers}; do grep -qsx kept "$f" || echo "$f"; done; '
        'find "$HOME" -type f -newerat 2002-01-01 2>/dev/null | sed "s/^/read /"'
    )
    found = []
    for line in seen.output.splitlines():
        name = line.rpartition("/home/")[2]
        near = next((path for path in SECRETS if name.startswith(path)), "")
        if f"~/{name}" in purpose.whole or (near and speaks_of(near, purpose)):
            continue
        if line.startswith("read "):
            if name in SECRETS and name != ".npmrc":
                blocks = not is_evidence(name, purpose)
                found.append(_did(way, f"it read ~/{name}", blocks=blocks))
        elif name in PAPERS or name in SECRETS or _steers(name, purpose):
            found.append(_did(way, f"it changed ~/{name} in the home of its person"))
    return found[:6]


def _steers(name: str, purpose: Purpose) -> bool:
    """A hidden file, unless it lies in the folder of the very program that the skill is about."""
    own = re.match(r"\.([a-z]{4,})(?:\.d)?/", name)
    if own and own[1] not in _AGENTS and re.search(rf"\b{own[1]}\b", purpose.short):
        return False
    return bool(_STEERS.search(name))


def _did(way: Way, cause: str, *, blocks: bool = True) -> Finding:
    return Finding(kind="sandbox", file=way.file, line=1, cause=cause, blocks=blocks)
