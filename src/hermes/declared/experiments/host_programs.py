"""Reads which services and scheduled jobs a host has, and which files they name.

A file that was changed concerns a service when its unit, its program or its settings name it.
"""

import re
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.declared.experiments.suspects import Suspect, names_item
from hermes.skills.supervisors.commands import HostSupervisors, UnsupportedActionError
from hermes.skills.supervisors.units import HostUnit, PlainDaemon, list_units, same_service

RunCommand = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]
"""Runs a script with `sh` and its standard input; returns the exit code and the output."""
MAX_NAMED_FILES = 80
MAX_FILE_KB, MAX_TOTAL_KB = 32, 150
"""An environment keeps about so much of the output of one command."""
MAX_OWN_FILES, OWN_FILE = 20, "its own file:"
"""Programs such as nginx read a folder below /etc that no unit names."""
_MARK = "@@hermes@@"
_UNITS_SCRIPT = f"""
systemctl list-units --all --type=service --no-legend --plain --no-pager 2>/dev/null |
  sed 's/^[^A-Za-z0-9]*//' | while read -r name load state rest; do
    case "$name" in *.service) ;; *) continue ;; esac
    case "$state" in active|activating|failed|reloading|inactive) ;; *) continue ;; esac
    [ "$state" = inactive ] && [ ! -e "/etc/systemd/system/$name" ] && continue
    echo "{_MARK} unit $name $state"
    systemctl cat "$name" 2>/dev/null
    find "/etc/${{name%.service}}" -maxdepth 3 -name '*.conf' 2>/dev/null |
      head -n {MAX_OWN_FILES} | sed 's/^/# {OWN_FILE} /'
  done
for table in /etc/crontab /etc/cron.d/* /var/spool/cron/crontabs/* /var/spool/cron/*; do
  [ -f "$table" ] || continue
  echo "{_MARK} table $table"
  cat "$table"
done
"""
_FILES_SCRIPT = f"""
left={MAX_TOTAL_KB * 1024}
while read -r path; do
  [ -f "$path" ] && [ -r "$path" ] || continue
  size=$(stat -Lc %s -- "$path")
  [ "$size" -le {MAX_FILE_KB * 1024} ] && [ "$size" -le "$left" ] || continue
  grep -Iq . "$path" || continue
  left=$((left - size))
  echo "{_MARK} file $path"
  cat "$path"
done
"""
_PATH = re.compile(r"(?<![\w./-])/(?:[\w.@+-]+/)*[\w.@+-]*[\w@+-]")
_SYSTEM_FOLDERS = ("/usr/", "/bin/", "/lib", "/sbin/", "/proc/", "/sys/", "/dev/", "/run/")
COPIED_KINDS = ("supervisord", "runit", "s6", "openrc", "sysvinit", "daemon")
"""Supervisors whose services also run in a copy; containers need an engine."""
_UNIT_ACTIONS = ("start", "stop", "restart", "reload_definitions")
_VARIABLES_BETWEEN = re.compile(r",\s*(?=[A-Za-z_]\w*=)")
"""supervisord writes all variables in one line."""
_LISTENS = re.compile(
    r"(?:^\s*(?:port|listen|bind)\b\s*[=: ]|\s--?(?:port|listen|bind)[= ])"
    r"\s*(?:[\w.]+:)?(\d{2,5})\b(?!\s*\))",
    re.MULTILINE | re.IGNORECASE,
)
_OWN_COMMAND = re.compile(r"/hermes\b.* watch\b")
_SCHEDULE = re.compile(r"^\s*(?:@\w+|(?:[\d*,/\w-]+\s+){4}[\d*,/\w-]+)\s+(\S.*)$")


class HostService(Value, frozen=True, kw_only=True):
    name: str
    """Of its unit, without the suffix."""
    state: str = ""
    unit_text: str = ""
    settings_text: str = ""
    """The contents of the files that its unit names."""
    named_text: str = ""
    """These, and the contents of the files that these name."""
    commands: dict[str, str] = {}
    """The commands of its supervisor by action; empty under systemd."""
    logs: tuple[str, ...] = ()

    def command(self, action: str) -> str:
        """What does it on the host."""
        unit = shlex.quote(self.name)
        if self.commands:
            return self.commands.get(action, "")
        if action == "restart":
            return f"systemctl reset-failed {unit} 2>/dev/null; systemctl restart {unit}"
        return f"systemctl {action} {unit}"

    @property
    def running(self) -> bool:
        return self.state in ("active", "reloading")

    @property
    def idle(self) -> bool:
        """Neither running nor failed: it is not meant to run now."""
        return self.state == "inactive"

    @property
    def definition(self) -> tuple[str, ...]:
        """The settings of its unit, without comments."""
        lines = (line.strip() for line in self.unit_text.splitlines())
        return tuple(line for line in lines if "=" in line and not line.startswith(("#", ";")))

    @property
    def definition_file(self) -> str:
        """Of another supervisor than systemd."""
        found = re.search(r"^SourcePath=(/.*)$", self.unit_text, re.MULTILINE)
        return found[1] if found else ""

    @property
    def is_redefinable(self) -> bool:
        """Whether a copy reads its definition again: it is of supervisord, or a script that the
        copy runs."""
        runs_script = any(
            line.startswith("ExecStart=") and self.definition_file in line.split("=", 1)[1].split()
            for line in self.definition
        )
        return runs_script or "supervisorctl" in self.commands.get("restart", "")

    @property
    def reloadable(self) -> bool:
        return "ExecReload=" in self.unit_text

    @property
    def packaged(self) -> bool:
        """Whether its unit came with the system or a package."""
        return self.unit_text.lstrip().startswith(("# /lib/", "# /usr/lib/"))

    @property
    def ports(self) -> tuple[str, ...]:
        """Those that its unit and settings say it listens on."""
        found = _LISTENS.findall(f"{self.unit_text}\n{self.settings_text}")
        return tuple(dict.fromkeys(found))

    def names(self, other: "HostService") -> bool:
        """Return whether its unit or settings have the name or a port of another service."""
        text = f"{self.unit_text}\n{self.settings_text}"
        ports = [rf"(?<=[:=\s]){port}" for port in other.ports if port not in self.ports]
        words = "|".join([rf"(?<![\w-]){re.escape(other.name)}", *ports])
        return re.search(rf"(?:{words})(?![\w-])", text) is not None

    def concerns(self, path: str) -> bool:
        """Return whether it may depend on a file."""
        return self.reads(path) or names_item(self.named_text, path)

    def reads(self, path: str) -> bool:
        """Return whether its unit, its program or its settings name a file."""
        own = f"/{self.name}.service" in path and "/systemd/" in path and not self.commands
        return own or names_item(self.unit_text, path) or names_item(self.settings_text, path)


class ScheduledJob(Value, frozen=True, kw_only=True):
    command: str
    user: str = "root"
    table: str = ""
    named_text: str = ""

    def concerns(self, path: str) -> bool:
        return names_item(self.command, path) or names_item(self.named_text, path)

    @property
    def shell_command(self) -> str:
        """As cron runs it."""
        if self.user in ("root", ""):
            return f"cd / && sh -c {shlex.quote(self.command)}"
        return f"cd / && su -s /bin/sh {shlex.quote(self.user)} -c {shlex.quote(self.command)}"


class HostPrograms(Value, frozen=True, kw_only=True):
    services: tuple[HostService, ...] = ()
    jobs: tuple[ScheduledJob, ...] = ()

    def services_of(self, paths: Sequence[str]) -> tuple[HostService, ...]:
        return tuple(each for each in self.services if any(each.concerns(path) for path in paths))

    def readers_of(self, paths: Sequence[str]) -> tuple[HostService, ...]:
        return tuple(each for each in self.services if any(each.reads(path) for path in paths))

    def users_of(self, commands: Sequence[str]) -> tuple[HostService, ...]:
        """Services with a file in a place that one of these commands names."""
        places = [path for each in commands for path in named_paths(each) if path.count("/") > 1]
        return tuple(
            each
            for each in self.services
            if any(
                f"{place}/" in text or names_item(text, place)
                for place in places
                for text in (each.unit_text, each.settings_text)
            )
        )

    def jobs_of(self, suspects: Sequence[Suspect]) -> tuple[ScheduledJob, ...]:
        paths = [each.change.item.key for each in suspects if each.change.item.kind == "file"]
        return tuple(each for each in self.jobs if any(each.concerns(path) for path in paths))

    def related_to(self, names: Sequence[str]) -> tuple[str, ...]:
        """The other services that one of these names in its unit or settings, or that name one of
        these; by name or by port."""
        own = [each for name in names if (each := self.named(name))]
        return tuple(
            other.name
            for other in self.services
            if other not in own and any(each.names(other) or other.names(each) for each in own)
        )

    def named(self, name: str) -> HostService | None:
        short = name.removesuffix(".service")
        exact = next((each for each in self.services if each.name == short), None)
        # redis is redis-server to another supervisor.
        return exact or next(
            (each for each in self.services if each.commands and same_service(each.name, short)),
            None,
        )


async def read_host_programs(run: RunCommand, daemons: Sequence[PlainDaemon] = ()) -> HostPrograms:
    """What cannot be read is missing: nothing is concluded from its absence. `daemons`: how those
    without a supervisor were started."""
    _, output = await run(_UNITS_SCRIPT, b"")
    units, tables = dict[str, str](), dict[str, str]()
    states: dict[str, str] = {}
    for words, text in _split_by_marks(output.decode("utf-8", "replace")):
        if words[0] == "unit" and len(words) == 3:
            units[words[1].removesuffix(".service")] = text
            states[words[1].removesuffix(".service")] = words[2]
        elif words[0] == "table":
            tables[words[1]] = text
    others = await _other_units(run, daemons)
    units |= {name: _unit_text(unit) for name, (unit, _) in others.items()}
    states |= {name: unit.state for name, (unit, _) in others.items()}
    jobs = [job for table, text in tables.items() for job in parse_job_table(table, text)]
    files = await _read_named_files(run, [*units.values(), *(job.command for job in jobs)])
    return HostPrograms(
        services=tuple(
            HostService(
                name=name,
                state=states[name],
                unit_text=text,
                settings_text=_named_text(text, files, steps=1),
                named_text=_named_text(text, files),
                commands=others[name][1] if name in others else {},
                logs=others[name][0].logs if name in others else (),
            )
            for name, text in units.items()
        ),
        jobs=tuple(
            ScheduledJob(
                command=job.command,
                user=job.user,
                table=job.table,
                named_text=_named_text(job.command, files),
            )
            for job in jobs
        ),
    )


async def _other_units(
    run: RunCommand, daemons: Sequence[PlainDaemon]
) -> dict[str, tuple[HostUnit, dict[str, str]]]:
    """The units of other supervisors than systemd, with their commands by action."""

    async def run_script(script: str) -> str:
        _, output = await run(script, b"")
        return output.decode("utf-8", "replace")

    listed = [
        each
        for each in (await list_units(run_script, daemons)).units
        if each.kind in COPIED_KINDS and not _OWN_COMMAND.search("\n".join(each.definition))
    ]
    supervisors = HostSupervisors(listed, daemons)
    started = {each.name: each.command for each in daemons}
    return {
        each.name: (
            replace(each, definition=_started_by(each, started)),
            _commands_of(each.name, supervisors),
        )
        for each in listed
    }


def _started_by(unit: HostUnit, commands: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Its definition with what starts it: its process may show only a title."""
    others = tuple(each for each in unit.definition if not each.startswith("ExecStart="))
    if unit.kind == "sysvinit" and unit.file:
        ways = (f"ExecStart={unit.file} start", f"ExecStop={unit.file} stop", "Type=forking")
        return (*ways, *(each for each in others if not each.startswith("User=")))
    command = commands.get(unit.name)
    if unit.kind == "daemon" and command:
        return (f"ExecStart={shlex.join(command)}", *others)
    return unit.definition


def _commands_of(name: str, supervisors: HostSupervisors) -> dict[str, str]:
    """What its supervisor cannot do fails, and says so: it is not left to systemctl."""
    found = {}
    for action in _UNIT_ACTIONS:
        try:
            found[action] = supervisors.render(action, name)
        except UnsupportedActionError as error:
            found[action] = f"echo {shlex.quote(str(error))} >&2; false"
    return found


def _unit_text(unit: HostUnit) -> str:
    """As a unit of systemd. A program that moves to the background is followed there.
    Files of variables are those that the program names; they may be missing."""
    lines = [*unit.definition, f"SourcePath={unit.file or unit.kind}"]
    if unit.kind == "daemon":
        lines.append("Type=forking")
    return "\n".join(
        _VARIABLES_BETWEEN.sub("\nEnvironment=", line)
        if line.startswith("Environment=")
        else line.replace("EnvironmentFile=/", "EnvironmentFile=-/")
        for line in lines
    )


async def _read_named_files(run: RunCommand, texts: Sequence[str]) -> dict[str, str]:
    """In two steps: the files that the texts name, and the files that these name."""
    files: dict[str, str] = {}
    for _ in range(2):
        named = [path for text in (*texts, *files.values()) for path in named_paths(text)]
        left = [path for path in dict.fromkeys(named) if path not in files][:MAX_NAMED_FILES]
        if not left:
            break
        _, output = await run(_FILES_SCRIPT, "".join(f"{path}\n" for path in left).encode())
        for words, text in _split_by_marks(output.decode("utf-8", "replace")):
            if words[0] == "file":
                files[" ".join(words[1:])] = text
    return files


def named_paths(text: str) -> list[str]:
    return [path for path in _PATH.findall(text) if not path.startswith(_SYSTEM_FOLDERS)]


def _named_text(text: str, files: dict[str, str], steps: int = 2) -> str:
    first = [files[path] for path in dict.fromkeys(named_paths(text)) if path in files]
    if steps == 1:
        return "\n".join(first)
    second = [
        files[path]
        for content in first
        for path in dict.fromkeys(named_paths(content))
        if path in files and files[path] not in first
    ]
    return "\n".join([*first, *second])


def _split_by_marks(output: str) -> list[tuple[list[str], str]]:
    found = []
    for piece in re.split(rf"^{_MARK} ", output, flags=re.MULTILINE)[1:]:
        head, _, text = piece.partition("\n")
        found.append((head.split(), text))
    return found


def is_job_table(path: str) -> bool:
    """Return whether cron reads it."""
    return path == "/etc/crontab" or path.startswith(("/etc/cron.d/", "/var/spool/cron/"))


def parse_job_table(table: str, text: str) -> list[ScheduledJob]:
    """Tables of users have no column for the user: the file has its name."""
    own = table.startswith("/var/spool/cron")
    jobs = []
    for line in text.splitlines():
        matched = None if line.lstrip().startswith("#") else _SCHEDULE.match(line)
        if matched is None:
            continue
        user, _, command = ("", "", matched[1]) if own else matched[1].partition(" ")
        user = table.rpartition("/")[2] if own else user
        if command.strip():
            jobs.append(ScheduledJob(command=command.strip(), user=user, table=table))
    return jobs
