"""Reads units, services, settings of servers and rules of the packet filter by scripts."""

import base64
import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hermes.declared.collectors.readers import RunCommand
from hermes.declared.collectors.ruleset import parse_ruleset
from hermes.declared.state import RULESET, Item, ItemId
from hermes.skills.supervisors.units import HostUnit, PlainDaemon, list_units

KeepContent = Callable[[bytes], str]
_SCRIPTS = Path(__file__).parent / "scripts"
_PROCESS_FACTS = re.compile(r" ; start_time=[^}]*")
"""Of the last start of a command: these change with each restart."""
_STATE_KEYS = frozenset({"ActiveState", "SubState", "UnitFileState", "LoadState", "Id"})
_PATH = re.compile(r"(?<![\w./-])/(?:[\w.@+-]+/)*[\w.@+-]+")
_KINDS = {
    "units": ("unit", "service"),
    "settings": ("setting",),
    "packet_filter": ("packet-filter",),
}
_SETTINGS_MARK = "hermes-settings"
SECRET_SETTINGS = re.compile(r"pass|auth|secret|conninfo|token|key$|^user$", re.IGNORECASE)
ENDED_STATES = {"activating": "active", "reloading": "active", "deactivating": "inactive"}
"""States on the way to another: they count as that one."""


class HostServices:
    """Items of units, services and settings, and the paths that the units name."""

    def __init__(self) -> None:
        self.items: dict[ItemId, Item] = {}
        self.named: set[str] = set()
        self.left_out: list[str] = []

    def add_systemd(self, output: str, keep: KeepContent) -> None:
        for settings in _unit_blocks(output):
            name = settings["Id"][0]
            if settings.get("LoadState", [""])[0] == "not-found":
                continue
            active = settings.get("ActiveState", [""])[0]
            self._add_service(name, active, settings.get("UnitFileState", [""])[0])
            lines = sorted(
                f"{key}={_PROCESS_FACTS.sub('', value)}"
                for key, values in settings.items()
                for value in values
                if key not in _STATE_KEYS and value
            )
            self._add_unit(name, lines, settings.get("FragmentPath", [""])[0], keep)

    def add_unit(self, unit: HostUnit, keep: KeepContent) -> None:
        self._add_service(unit.name, unit.state, "")
        self._add_unit(unit.name, [*unit.definition], unit.file, keep, supervisor=unit.kind)

    def _add_service(self, name: str, active: str, enabled: str) -> None:
        attributes = {"active": ENDED_STATES.get(active, active)}
        if enabled:
            attributes["enabled"] = enabled
        self.items[ItemId("service", name)] = Item("", attributes)

    def _add_unit(
        self, name: str, lines: list[str], file: str, keep: KeepContent, supervisor: str = "systemd"
    ) -> None:
        attributes = {"supervisor": supervisor}
        if file:
            attributes["file"] = file
        text = "\n".join(lines)
        self.items[ItemId("unit", name)] = Item(keep(f"{text}\n".encode()), attributes)
        self.named.update(_PATH.findall(text))
        if file:
            self.named.add(file)

    def add_settings(self, output: str, keep: KeepContent) -> None:
        for server, name, value in _settings(output):
            item = Item(keep(value.encode()), {})
            if SECRET_SETTINGS.search(name):
                item = Item("", {"set": "yes" if value else "no"})
            self.items[ItemId("setting", f"{server}/{name}")] = item

    def add_packet_filter(self, output: str) -> None:
        head, _, text = output.partition("\n")
        why = head.removeprefix("left-out ")
        if head == "rules":
            try:
                self.items.update(parse_ruleset(text))
            except ValueError as error:
                why = f"its rules cannot be read: {error}"
        if RULESET not in self.items and head:
            self.left_out.append(f"{RULESET.kind}: {why}")


def _unit_blocks(output: str) -> Iterator[dict[str, list[str]]]:
    """The properties of each unit. Blank lines are between them, or each begins with `Id`."""
    block: dict[str, list[str]] = {}
    for line in [*output.splitlines(), ""]:
        key, equals, value = line.partition("=")
        if (not line or (key == "Id" and "Id" in block)) and block:
            if "Id" in block:
                yield block
            block = {}
        if equals and key.isalnum():
            block.setdefault(key, []).append(value.strip())


def _settings(output: str) -> Iterator[tuple[str, str, str]]:
    """Server, name and value. Names and values are on lines of their own, in turn."""
    server, name = "", None
    for line in output.splitlines():
        if line.startswith(_SETTINGS_MARK):
            server, name = line[len(_SETTINGS_MARK) :].strip(), None
        elif name is None:
            name = line if re.fullmatch(r"[\w.-]+", line) else None
        else:
            yield server, name, line
            name = None


async def collect_services(
    run: RunCommand,
    keep: KeepContent,
    *,
    with_settings: bool = True,
    daemons: Sequence[PlainDaemon] = (),
) -> HostServices:
    """`daemons`: how services without a supervisor were started."""
    found = HostServices()

    async def run_script(script: str) -> str:
        _, output = await run(script, b"")
        return output.decode("utf-8", "replace")

    async def run_packed(name: str) -> str:
        """The output of one of our scripts, compressed on the way: environments cut long ones."""
        script = f"({_read_script(name)}) | gzip -c | base64"
        try:
            return gzip.decompress(base64.b64decode(await run_script(script))).decode(
                "utf-8", "replace"
            )
        except (ValueError, OSError, EOFError, zlib.error):
            found.left_out += [
                f"{kind}: the answer of the host was cut off" for kind in _KINDS[name]
            ]
            return ""

    systemd = await run_packed("units")
    if "hermes-units" in systemd:
        found.add_systemd(systemd.partition("hermes-units systemd\n")[2], keep)
    for unit in (await list_units(run_script, daemons)).units:
        known = {f"{unit.name}", f"{unit.name}.service"}
        if unit.kind != "systemd" and not any(
            ItemId("unit", each) in found.items for each in known
        ):
            found.add_unit(unit, keep)
    if with_settings:
        found.add_settings(await run_packed("settings"), keep)
    found.add_packet_filter(await run_packed("packet_filter"))
    return found


def _read_script(name: str) -> str:
    return (_SCRIPTS / f"{name}.sh").read_text(encoding="utf-8")
