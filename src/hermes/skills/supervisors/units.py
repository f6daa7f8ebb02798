"""Lists the units of all supervisors of a host, and makes shell functions that know them.

One small script for each kind, and only for the kinds that run on the host. Later probes get the
result as a table, so that none of them has to ask a slow supervisor again. Where all units are of
systemd, the functions ask systemctl, and nothing is listed before.
"""

import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from hermes.core.messages import Value

SCRIPTS_FOLDER = Path(__file__).parent / "scripts"
SCRIPT_TIMEOUT_S = 15.0
MAX_TABLE_CHARS = 9000
"""Characters of the table: a longer command would not be analysed by the policy."""
MAX_VALUE_CHARS = 400
SAID_LINES = "120"
"""Lines of its log that count as what a unit said lately."""
_SCRIPT_OF_KIND = {"runit": "scan_folders", "s6": "scan_folders", "podman": "docker"}
KINDS = ("supervisord", "runit", "s6", "openrc", "docker", "podman", "pm2", "systemd-user")
_UNIT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,120}")
_NAME_SUFFIXES = ("-server", "d", "ql")
_PLACE = re.compile(r"/[\w./@+-]{1,200}")
_SHELL_FUNCTION = re.compile(
    r"^((\w+)\(\) \{(?: .*\}|[^\n]*\n(?:(?!\}).*\n)*\})(?:\n|\Z))", re.MULTILINE
)
"""One line, or lines up to a closing brace at the start of one."""
_REMEMBERED = "{{remembered}}"
_TABLE = "{{host_units}}"
SUPERVISORD_QUERY = "supervisorctl status"
_WANTED = "{{wanted}}"
_LOG_FILES = 'fact "$1" log | xargs -r tail -q -n "$2" 2>/dev/null | tail -n "$2"'
_LOG_COMMANDS = {
    "systemd": 'journalctl -u "$1" --lines="$2" -o cat --no-pager 2>/dev/null',
    "systemd-user": 'journalctl --user -u "$1" --lines="$2" -o cat --no-pager 2>/dev/null',
    "docker": 'timeout 5 docker logs --tail "$2" "$1" 2>&1',
    "podman": 'timeout 5 podman logs --tail "$2" "$1" 2>&1',
}
RunScript = Callable[[str], Awaitable[str]]
"""Runs a read-only script on the host; its output, or an empty text when it could not be run."""


_SETTINGS_FILE = re.compile(r"/\S+\.(?:conf|cnf|cfg|ini|ya?ml|toml|json|properties)")


class PlainDaemon(Value, kw_only=True, frozen=True):
    """How a daemon without a supervisor was started, as seen while it ran."""

    name: str
    command: tuple[str, ...] = ()
    """Empty when its command line does not show it."""
    user: str = ""
    folder: str = ""
    variables: tuple[str, ...] = ()
    """The names of its environment variables; the values are not kept."""
    log: str = ""
    """The file that has its output."""
    pid_file: str = ""
    title: str = ""
    """What its process shows in place of its command line; empty when it shows that."""
    first_seen_s: int = 0
    """Seconds since 1970."""
    started_s: int = 0
    """When its process was started that ran last; 0 when that is not known."""

    @property
    def command_line(self) -> str:
        """As its process shows it."""
        return self.title or " ".join(self.command)

    @property
    def settings_file(self) -> str:
        """The file of settings that its command names; empty without one."""
        values = (word.rpartition("=")[2] for word in self.command[1:])
        return next(filter(_SETTINGS_FILE.fullmatch, values), "")


class HostUnit(Value, kw_only=True, frozen=True):
    """A unit of one supervisor."""

    name: str
    kind: str
    full_name: str = ""
    """With its group, where its supervisor needs that."""
    state: str = ""
    """active, activating, failed or inactive, as systemd calls them."""
    pid: int = 0
    restarts: int = 0
    since: str = ""
    """When it was started for the first time, as `date -d` reads it."""
    started: str = ""
    """When it was started last, also if it has ended since, as `date -d` reads it."""
    exit: str = ""
    """How it last ended, in the words of its supervisor."""
    ended_at: str = ""
    """When it last ended, as its supervisor writes it."""
    place: str = ""
    """The folder or the configuration that its supervisor needs to find it."""
    file: str = ""
    """The file of its definition."""
    definition: tuple[str, ...] = ()
    """Lines as in a unit of systemd: ExecStart=, EnvironmentFile=, User= and others."""
    logs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    """Other names of it, by its supervisor or by what its processes are."""


class UnitListing(Value, kw_only=True, frozen=True):
    units: tuple[HostUnit, ...] = ()
    notes: tuple[str, ...] = ()
    """What is unusual, in words: a supervisor that does not answer, a service with two of them."""

    def find(self, service: str) -> tuple[HostUnit, ...]:
        """The units of a service; those with a process first."""
        found = [
            each
            for each in self.units
            if any(same_service(name, service) for name in (each.name, *each.aliases))
        ]
        return tuple(sorted(found, key=lambda each: not each.pid))


def same_service(one: str, other: str) -> bool:
    """`redis` is redis-server, `shop_api` is shop-api, `shop:web_00` is web."""
    first, second = _plain_name(one), _plain_name(other)
    if not first or not second:
        return False
    return first == second or any(
        first == second + suffix or second == first + suffix for suffix in _NAME_SUFFIXES
    )


def _plain_name(name: str) -> str:
    text = name.rpartition(":")[2].lower().replace("_", "-").removesuffix(".service")
    return re.sub(r"-\d+$", "", text)


def shell_functions(units: Sequence[HostUnit], command: str) -> str:
    """The functions that a command calls, of rows, unit_state, restarts, main_pid, definition,
    definition_file, unit_log, said (also its files in /var/log), log_files, first_start and
    last_start."""
    if not units:
        return drop_unused_functions(_read_script("functions_systemd"), command)
    kinds = dict.fromkeys(each.kind for each in units)
    special = "".join(
        f"{kind}) {read_log} ;; " for kind, read_log in _LOG_COMMANDS.items() if kind in kinds
    )
    log = f'case "$(fact "$1" kind)" in {special}*) {_LOG_FILES} ;; esac' if special else _LOG_FILES
    text = _read_script("functions_table").replace("LOG;", f"{log};")
    text = text.replace("SAID;", f"{log};".replace('"$2"', SAID_LINES))
    return drop_unused_functions(text, command).replace(_TABLE, _table(units))


def drop_unused_functions(text: str, command: str) -> str:
    """Shell functions that the command calls, also through others. The policy reads a limited
    number of commands, and those of unused functions count too."""
    functions = {found[2]: found[1] for found in _SHELL_FUNCTION.finditer(text)}
    used: set[str] = set()
    waiting = [_SHELL_FUNCTION.sub("", text), command]
    while waiting:
        code = re.sub(r"^\s*#.*", "", waiting.pop(), flags=re.MULTILINE)
        for name in set(re.findall(r"[A-Za-z_]\w*", code)) & functions.keys() - used:
            used.add(name)
            waiting.append(functions[name])
    return _SHELL_FUNCTION.sub(lambda found: found[0] if found[2] in used else "", text)


def _table(units: Sequence[HostUnit]) -> str:
    """A line for each fact with unit, key and value, separated by tabs; what fails comes first.
    No line can end the document in the shell: each has tabs."""
    text = ""
    for unit in sorted(units, key=lambda each: each.state == "active"):
        rows = "".join(
            f"{unit.name}\t{key}\t{value[:MAX_VALUE_CHARS]}\n" for key, value in _facts(unit)
        )
        if len(text) + len(rows) <= MAX_TABLE_CHARS:
            text += rows
    return text.rstrip("\n")


def _facts(unit: HostUnit) -> Iterable[tuple[str, str]]:
    yield "kind", unit.kind
    yield "state", unit.state
    yield "pid", str(unit.pid)
    yield "restarts", str(unit.restarts)
    times = (("since", unit.since), ("started", unit.started))
    for key, value in (*times, ("file", unit.file), ("exit", unit.exit)):
        if value:
            yield key, value
    for line in unit.definition:
        yield "define", line
    for path in unit.logs:
        yield "log", path


async def list_units(
    run: RunScript,
    daemons: Sequence[PlainDaemon] = (),
    root_commands: Sequence[str] = (),
    service: str = "",
) -> UnitListing:
    """`root_commands` are those that need `sudo`, and may be run with it. `service`: its unit is
    listed too where it does not run or has only an init script."""
    found = re.findall(r"^kind=([a-z0-9-]+)$", await run(_read_script("kinds")), re.MULTILINE)
    scripts = dict.fromkeys(
        _with_sudo(_script_of(kind), root_commands) for kind in found if kind in KINDS
    )
    if daemons:
        remembered = shlex.quote(describe_daemons(daemons))
        scripts[_with_files("daemon").replace(_REMEMBERED, remembered)] = None
    outputs = [await run(script) for script in scripts]
    if "systemd" in found and (service or parse_units(outputs).units):
        outputs.append(await run(_script_for("systemd", f"{service}.service" if service else "")))
    listing = parse_units(outputs)
    if service and not listing.notes and not listing.find(service):
        outputs.append(await run(_script_for("sysvinit", service)))
        listing = parse_units(outputs)
    return listing


async def list_init_script(run: RunScript, program: str) -> UnitListing:
    """The init script of a program, without its state."""
    return parse_units([await run(_script_for("sysvinit", program))])


def _script_for(name: str, wanted: str) -> str:
    return _with_files(name).replace(_WANTED, shlex.quote(wanted))


def _with_sudo(script: str, root_commands: Sequence[str]) -> str:
    """The socket of supervisord is closed to all but root."""
    if SUPERVISORD_QUERY not in root_commands:
        return script
    return script.replace(f" {SUPERVISORD_QUERY};", f" sudo {SUPERVISORD_QUERY};")


def listing_scripts() -> dict[str, str]:
    """All scripts by name; each must only read."""
    return (
        {name: _with_files(name) for name in ("kinds", "daemon")}
        | {name: _script_for(name, "") for name in ("systemd", "sysvinit")}
        | {kind: _script_of(kind) for kind in KINDS}
    )


def _script_of(kind: str) -> str:
    text = _with_files(_SCRIPT_OF_KIND.get(kind, kind))
    if kind == "supervisord":
        text = f"{supervisord_log_functions()}\n{text}"
    return text.replace("docker", "podman") if kind == "podman" else text


def supervisord_log_functions() -> str:
    """Shell functions that read the states of programs from the log of supervisord.

    `supervisorctl -c FILE` would load plug-ins that the file names, as the user of Hermes."""
    return _read_script("supervisord_log")


def _with_files(name: str) -> str:
    return f"{_read_script('files')}\n{_read_script(name)}"


def _read_script(name: str) -> str:
    return (SCRIPTS_FOLDER / f"{name}.sh").read_text(encoding="utf-8").strip()


def parse_units(outputs: Sequence[str]) -> UnitListing:
    units: dict[tuple[str, int], HostUnit] = {}
    notes: list[str] = []
    for number, output in enumerate(outputs):
        for line in output.splitlines():
            key, _, rest = line.partition("=")
            if key == "note" and rest:
                notes.append(rest[:160])
            fields = rest.split("\t", 2)
            if key == "unit" and len(fields) == 3 and _UNIT_NAME.fullmatch(fields[0]):
                name = fields[0].rpartition(":")[2]
                before = units.get((name, number)) or HostUnit(name=name, kind="")
                if fields[1] == "kind" and name != fields[0]:
                    before = replace(before, full_name=fields[0])
                units[name, number] = _with_fact(before, fields[1], fields[2].strip())
    return _one_supervisor_each([each for each in units.values() if each.kind], notes)


def _with_fact(unit: HostUnit, key: str, value: str) -> HostUnit:
    if key in ("pid", "restarts"):
        number = int(value) if value.isdigit() else 0
        return replace(unit, pid=number) if key == "pid" else replace(unit, restarts=number)
    if key == "define" and value.partition("=")[2] not in ("", "-"):
        return replace(unit, definition=(*unit.definition, value))
    if key == "alias" and value not in unit.aliases:
        return replace(unit, aliases=(*unit.aliases, value))
    if key == "log" and value not in unit.logs:
        return replace(unit, logs=(*unit.logs, value))
    if key == "place" and not _PLACE.fullmatch(value):
        return unit
    if key == "ended":
        return replace(unit, ended_at=value)
    plain = key in ("kind", "state", "since", "started", "exit", "place", "file")
    return replace(unit, **{key: value}) if plain else unit


def _one_supervisor_each(units: Sequence[HostUnit], notes: list[str]) -> UnitListing:
    """Of two supervisors for one service, the one whose process runs; else not none at all."""
    chosen: dict[str, HostUnit] = {}
    pids = {each.pid for each in units if each.pid and each.kind != "daemon"}
    for unit in units:
        if unit.kind == "daemon" and unit.pid in pids:
            continue  # a supervisor has it by now
        service = unit.name.removesuffix(".service")
        other = chosen.get(service)
        if other is None:
            chosen[service] = unit
            continue
        keep, drop = sorted((other, unit), key=lambda each: (not each.pid, each.kind == "daemon"))
        chosen[service] = keep
        notes.append(f"{service} runs under {keep.kind}, and {drop.kind} knows it too")
    return UnitListing(units=tuple(chosen.values()), notes=tuple(notes))


def describe_daemons(daemons: Sequence[PlainDaemon]) -> str:
    """For the shell, a line each: name, times of the first sight and the last start, user, folder,
    log, pid file, settings, command."""
    return "\n".join(
        "\t".join(
            re.sub(r"[\t\n]", " ", field) or "-"
            for field in (
                each.name,
                str(each.first_seen_s),
                str(each.started_s),
                each.user,
                each.folder,
                each.log,
                each.pid_file,
                each.settings_file,
                each.command_line,
            )
        )
        for each in daemons
    )
