"""Runs the scripts of a skill in a sandbox with canary secrets, and judges what they did."""

import re
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path, PurePosixPath

import anyio
import msgspec
from msgspec.structs import replace

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.skills.scanner.action import mentions_path
from hermes.skills.scanner.finding import NpmManifest, ScanFinding, SkillFile
from hermes.skills.scanner.purpose import DeclaredPurpose, read_purpose
from hermes.skills.scanner.python.actions import SECRET_VARIABLE_NAME
from hermes.skills.scanner.shell_text import ShellPassage, check_shell, extract_commands
from hermes.skills.scanner.trial_verdict import (
    CANARY_DOCUMENT_FILES,
    CANARY_SECRET_FILES,
    CanarySecret,
    is_forensic_evidence,
    judge_trial_event,
)

MAX_ENTRY_POINTS = 24
_COUNTS_USES = re.compile(r"\+\s*=?\s*1\b|\+\+|\bwc\b|st_size|getsize|\bstat\b|>>|\blen\(|\bsum\(")
_REQUIRED_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]{2,40}):?\?")
_INTERPRETERS = {
    ".js": "node", ".mjs": "node", ".cjs": "node", ".pl": "perl", ".rb": "ruby", ".php": "php",
    ".lua": "lua",
}  # fmt: skip
_NPM_SCRIPTS = (
    "preinstall", "install", "postinstall", "prepare", "prepublish", "pretest", "test", "start",
)  # fmt: skip
_HIDDEN_SETTINGS_FILE = re.compile(
    r"(?:^|/)\.(?!local/(?:share|state)/|config/[\w-]+/[\w-]+\.(?:json|ya?ml|toml)$|cache/)\w"
)
"""Hidden files, except those in which programs store their own data."""
_PROTECTED_FOLDERS = frozenset(
    {"hermes", "claude", "cursor", "codex", "gemini", "config", "local", "gnupg"}
)
OpenTrialSandbox = Callable[[Mapping[str, str]], AbstractAsyncContextManager[Environment]]
"""Opens a sandbox without network whose commands see these variables."""
HOST_PROFILES = (
    "WATCH_SHIFT= WATCH_HOST=anna-laptop WATCH_DOMAIN=corp.acme.com WATCH_USER=anna USER=anna "
    "LOGNAME=anna HOSTNAME=anna-laptop TERM=xterm-256color DISPLAY=:0 LANG=en_US.UTF-8 SHLVL=2",
    f"WATCH_SHIFT={3 * 365 * 86400} WATCH_HOST=prod-db-1 WATCH_DOMAIN=prod.acme.com "
    "WATCH_USER=root USER=root LOGNAME=root HOSTNAME=prod-db-1 CI=true GITHUB_ACTIONS=true "
    "TERM=xterm-256color TZ=Europe/Berlin WATCH_CHANCE=1",
)
"""A developer machine now, and a server in three years, as root, in a build: code that waits for
one of them acts there."""
MAX_LOG_LINES = 2000
"""Lines of the log that are judged; an endless loop adds nothing new."""
MAX_REPEATED_CALLS = 24
"""Calls of a script that may count its uses."""
SCRIPT_TIMEOUT_S = 4
TRIAL_TIMEOUT_S = 60.0
_SHIMMED_PROGRAMS = (
    "curl", "wget", "nc", "ncat", "netcat", "socat", "ssh", "scp", "sftp", "rsync", "ftp", "telnet",
    "dig", "nslookup", "host", "ping", "crontab", "at", "systemctl", "launchctl", "mail", "sleep",
    "sendmail", "sudo", "su", "docker", "kubectl", "aws", "gcloud", "date", "hostname", "whoami",
    "gh", "npm", "pip", "pip3", "apt-get", "brew", "osascript", "gpg", "security", "git", "xclip",
    "pbpaste", "uptime", "nproc", "systemd-detect-virt", "id", "uname", "who", "dmidecode",
    "dnsdomainname", "cat", "grep", "head", "openssl", "drill", "resolvectl", "az", "rclone",
    "getent",
)  # fmt: skip


_CANARY_FILES = (*CANARY_SECRET_FILES, *CANARY_DOCUMENT_FILES)
_HOOKS_FOLDER = Path(__file__).parent / "sandbox_hooks"
_WATCHING_PROGRAMS = {
    "watch/python/sitecustomize.py": "sitecustomize.txt",
    "watch/driver.py": "driver.txt",
    "watch/bin/curl": "shim.txt",
    "watch/shell": "shell.txt",
    "watch/node.cjs": "node.txt",
}
"""By path in the sandbox: the audit hook that every Python process loads first; the driver, which
runs a Python script as a user would, and then each of its functions; the stand-in for programs that
use the network or install something; what every bash and every node process loads first."""


class SkillEntryPoint(Value, frozen=True):
    file: str
    command: str
    argument_lines: tuple[str, ...] = ()
    """Arguments from its documentation, one line per call."""
    counts_uses: bool = False
    """It may count its uses, so it is called repeatedly."""
    required_variables: tuple[str, ...] = ()
    """Environment variables that it requires."""
    script: str = ""
    """Commands extracted from a settings file, run as one script."""


async def run_trial(
    entries: Sequence[SkillFile], open_sandbox: OpenTrialSandbox
) -> list[ScanFinding]:
    """Findings about what each script did. Raises `EnvironmentFailed` without a sandbox."""
    canary = CanarySecret(secrets.token_hex(12))
    purpose = read_purpose(entries)
    found: list[ScanFinding] = []
    entry_points = find_entry_points(entries)
    with anyio.move_on_after(TRIAL_TIMEOUT_S) as scope:
        for entry_point in entry_points:
            for profile in HOST_PROFILES:
                async with open_sandbox(canary.variables()) as environment:
                    await _prepare_sandbox(environment, entries, entry_point, canary)
                    variables = "".join(
                        f" {name}={_variable_value(name, canary)}"
                        for name in entry_point.required_variables
                    )
                    log = await _run_watched(
                        environment, entry_point, f"{profile} WATCH_BAIT={canary.value}{variables}"
                    )
                    causes = list(_judge_log(entry_point.file, log, canary, purpose))
                    causes += await _find_changed_files(environment, purpose)
                    for cause, blocks in causes:
                        found.append(ScanFinding("sandbox", entry_point.file, 1, cause, blocks))
    if scope.cancelled_caught:
        cause = "its scripts take too long to be tried"
        found.append(ScanFinding("sandbox", entry_points[0].file, 1, cause, False))
    return list(dict.fromkeys(found))


async def _prepare_sandbox(
    environment: Environment,
    entries: Sequence[SkillFile],
    entry_point: SkillEntryPoint,
    canary: CanarySecret,
) -> None:
    for path in _CANARY_FILES:
        text = "kept\n" if path in CANARY_DOCUMENT_FILES else f"{canary.value}\n"
        await environment.write(f"~/{path}", text.encode())
    for entry in entries:
        if not entry.link:
            await environment.write(f"skill/{entry.path}", entry.data)
    for path, name in _WATCHING_PROGRAMS.items():
        await environment.write(path, (_HOOKS_FOLDER / name).read_bytes())
    await environment.write("watch/steps.sh", entry_point.script.encode())
    arguments = " ".join(entry_point.argument_lines)
    # Words among the arguments are often names of columns.
    words = re.findall(r"(?<![\w./-])[a-z]\w{1,20}(?![\w./-])", arguments)
    columns = ["a", "b", *dict.fromkeys(words)][:8]
    for name in {"notes.txt", *re.findall(r"sample/([\w-][\w.-]*)", arguments)}:
        await environment.write(f"sample/{name}", _sample_content(name, columns))
    names = " ".join(_SHIMMED_PROGRAMS)
    # Set access times back: reading a secret, in any language, changes them.
    await _run_own_commands(
        environment,
        f"chmod 755 watch/bin/curl; for n in {names}; do [ $n = curl ] || cp watch/bin/curl "
        'watch/bin/$n; done; find "$HOME" -type f -exec touch -a -d 2001-01-01 {} +; '
        "touch watch/start",
    )


async def _run_own_commands(environment: Environment, commands: str) -> None:
    """Otherwise a sandbox that runs nothing would look like a skill that removes the log."""
    result = await environment.run(commands)
    if result.exit_code:
        said = result.output.strip().splitlines() or ["it said nothing"]
        raise EnvironmentFailed(f"the sandbox could not be prepared: {said[-1][:200]}")


def _variable_value(name: str, canary: CanarySecret) -> str:
    """A plausible value for a variable of that name."""
    if SECRET_VARIABLE_NAME.search(name):
        return canary.requested_value
    return "http://127.0.0.1:9" if re.search(r"URL|HOST|ENDPOINT|ADDR|SERVER", name) else "sample"


def _sample_content(name: str, columns: list[str]) -> bytes:
    if name.endswith((".json", ".jsonl")):
        return b'{"a": 1, "items": [1, 2]}\n'
    if name.endswith((".yaml", ".yml")):
        return b"a: 1\nitems: [1, 2]\n"
    between = "\t" if name.endswith(".tsv") else ","
    values = [str(number) for number, _ in enumerate(columns, 1)]
    return f"{between.join(columns)}\n{between.join(values)}\n".encode()


async def _run_watched(environment: Environment, entry_point: SkillEntryPoint, profile: str) -> str:
    arguments = [*entry_point.argument_lines, "sample sample/notes.txt", "sample/notes.txt sample"]
    calls = [f"{entry_point.command} {each} </dev/null" for each in arguments]
    repetition = (
        f"for n in {{2..{MAX_REPEATED_CALLS}}}; do [ $SECONDS -ge 2 ] && break; {calls[0]}; done"
    )
    if not entry_point.counts_uses:
        repetition = ""
    if "driver.py" in entry_point.command:
        # The driver makes all calls within one process.
        await environment.write("watch/given", "\n".join(arguments).encode())
        calls, repetition = [entry_point.command], ""
    repeated_calls = MAX_REPEATED_CALLS if entry_point.counts_uses else 1
    await environment.write("watch/all.sh", "\n".join([*calls, repetition, ""]).encode())
    await _run_own_commands(environment, "rm -f watch/log && touch watch/log")
    await environment.run(
        f'export {profile} WATCH_LOG="$PWD/watch/log" BASH_XTRACEFD=19 '
        f'WATCH_AGAIN={repeated_calls} WATCH_PLACE="$PWD/watch" '
        f'BASH_ENV="$PWD/watch/shell" NODE_OPTIONS="--require $PWD/watch/node.cjs" '
        f'PYTHONPATH="$PWD/watch/python" PYTHONDONTWRITEBYTECODE=1 '
        f'PATH="$PWD/watch/bin:$PATH"; timeout -s KILL {SCRIPT_TIMEOUT_S} bash watch/all.sh '
        "</dev/null >/dev/null 2>&1 19>>watch/log",
        timeout=SCRIPT_TIMEOUT_S + 5.0,
    )
    try:
        return (await environment.read("watch/log", limit=2 << 20)).decode(errors="replace")
    except ToolError:
        return "gone\tthe log of what it does was removed"


def _judge_log(
    file: str, log: str, canary: CanarySecret, purpose: DeclaredPurpose
) -> Iterator[tuple[str, bool]]:
    """Return what it did, and whether that blocks it."""
    for line in list(dict.fromkeys(log.splitlines()))[:MAX_LOG_LINES]:
        what, _, text = line.partition("\t")
        if not text:
            what, text = "trace", line.lstrip("+ ")
        verdict = judge_trial_event(what, text, canary, purpose)
        if verdict.cause:
            yield verdict.cause, verdict.blocks
        if what in ("program", "command"):
            for each in check_shell(file, ShellPassage(text, 1, False)):
                yield f"it ran {text[:80]!r}: {each.cause}", each.blocks


async def _find_changed_files(
    environment: Environment, purpose: DeclaredPurpose
) -> list[tuple[str, bool]]:
    """Secrets that were read, and files of the home that are new or changed."""
    documents = " ".join(f'"$HOME/{path}"' for path in CANARY_DOCUMENT_FILES)
    listed = await environment.run(
        'find "$HOME" -newer watch/start -type f ! -path "*/.cache/*" 2>/dev/null | head -20; '
        f'for f in {documents}; do grep -qsx kept "$f" || echo "$f"; done; '
        'find "$HOME" -type f -newerat 2002-01-01 2>/dev/null | sed "s/^/read /"'
    )
    found = []
    for line in listed.output.splitlines():
        name = line.rpartition("/home/")[2]
        secret = next((path for path in CANARY_SECRET_FILES if name.startswith(path)), "")
        if f"~/{name}" in purpose.all_text or (secret and mentions_path(secret, purpose)):
            continue
        if line.startswith("read "):
            if name in CANARY_SECRET_FILES and name != ".npmrc":
                found.append((f"it read ~/{name}", not is_forensic_evidence(name, purpose)))
        elif name in _CANARY_FILES or _is_settings_change(name, purpose):
            found.append((f"it changed ~/{name} in the home of the user", True))
    return found[:6]


def _is_settings_change(name: str, purpose: DeclaredPurpose) -> bool:
    """A hidden file, unless it is in the folder of the program that the skill is about."""
    own = re.match(r"\.([a-z]{4,})(?:\.d)?/", name)
    if own and own[1] not in _PROTECTED_FOLDERS and re.search(rf"\b{own[1]}\b", purpose.summary):
        return False
    return bool(_HIDDEN_SETTINGS_FILE.search(name))


def find_entry_points(entries: Sequence[SkillFile]) -> list[SkillEntryPoint]:
    texts = "\n".join(each.text for each in entries if each.path.endswith((".md", ".txt")))
    found = [
        (entry_point, entry)
        for entry in entries
        if not entry.link
        for entry_point in _file_entry_points(entry)
    ][:MAX_ENTRY_POINTS]
    return [
        replace(
            entry_point,
            argument_lines=tuple(_find_documented_arguments(texts, entry_point.file)),
            required_variables=tuple(dict.fromkeys(_REQUIRED_VARIABLE.findall(entry.text)))[:8],
            counts_uses=bool(_COUNTS_USES.search(entry.text)) and not entry_point.script,
        )
        for entry_point, entry in found
    ]


def _find_documented_arguments(texts: str, file: str) -> Iterator[str]:
    """The arguments of documented calls of a script, with usable sample values."""
    name = re.escape(PurePosixPath(file).name)
    for found in list(re.finditer(rf"{name}(?![\w.])[\"']?((?:[ \t]+[^\n`|;&>]*)?)", texts))[:4]:
        words = [_substitute_argument(word) for word in re.sub(r"\s#.*", "", found[1]).split()]
        if words and len(words) <= 12:
            yield " ".join(shlex.quote(word) for word in words)


def _substitute_argument(word: str) -> str:
    """Replaces a placeholder, a pattern or an outside path by a sample."""
    word = word.strip("\"'[](),…").replace("...", "")
    if word.startswith("-") or re.fullmatch(r"[\d:.,x-]+", word):
        return word
    if "://" in word:
        return "http://127.0.0.1:9/"
    plain = re.sub(r"[^\w.-]", "x", word.rpartition("/")[2]).strip("-") or "notes.txt"
    return f"sample/{plain}" if re.search(r"[/.*<>$~]", word) or word.isupper() else plain


def _file_entry_points(entry: SkillFile) -> Iterator[SkillEntryPoint]:
    path = PurePosixPath(entry.path)
    inner = shlex.quote(f"skill/{entry.path}")
    first = entry.data[:80].split(b"\n")[0]
    program = _INTERPRETERS.get(path.suffix)
    if path.suffix in (".py", ".pyw") or (first.startswith(b"#!") and b"python" in first):
        yield SkillEntryPoint(entry.path, f"python3 watch/driver.py {inner}")
    elif path.suffix in (".sh", ".bash") or (
        first.startswith(b"#!") and re.search(rb"sh\b", first)
    ):
        yield SkillEntryPoint(entry.path, f"bash -x {inner}")
    elif program:
        yield SkillEntryPoint(entry.path, f"{program} {inner}")
    elif path.suffix == ".awk":
        yield SkillEntryPoint(entry.path, f"awk -f {inner}")
    elif path.name in ("Makefile", "makefile", "GNUmakefile"):
        folder = shlex.quote(str(PurePosixPath("skill") / path.parent))
        targets = " ".join(re.findall(r"^([\w-]+):(?!=)", entry.text, re.MULTILINE)[:6])
        yield SkillEntryPoint(entry.path, f"make -k -C {folder} {targets} SHELL='/bin/bash -x'")
    elif path.name == "package.json":
        yield from _npm_entry_points(entry)
    elif path.name == "playbook.yaml":
        script = re.sub(r"\{\{[^{}]*\}\}", "sample", extract_commands(entry.path, entry.text))
        yield SkillEntryPoint(entry.path, "bash -x watch/steps.sh", script=script)


def _npm_entry_points(entry: SkillFile) -> Iterator[SkillEntryPoint]:
    try:
        scripts = msgspec.json.decode(entry.data, type=NpmManifest).scripts
    except msgspec.DecodeError:
        return
    folder = shlex.quote(str(PurePosixPath("skill") / PurePosixPath(entry.path).parent))
    for name in _NPM_SCRIPTS:
        if name in scripts:
            yield SkillEntryPoint(
                entry.path, f"bash -xc {shlex.quote(f'cd {folder}; {scripts[name]}')}"
            )
