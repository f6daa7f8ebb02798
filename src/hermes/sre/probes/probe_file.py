"""Reads and writes `probes.yaml`; every problem is reported with its line."""

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import PluginError, SettingsError
from hermes.core.plugins import BUILT_IN, PluginWithSettings, call_plugin, load_plugin
from hermes.plumbing.problems import Problem, closest_name
from hermes.plumbing.yaml_document import YamlDocument, YamlFileError, load_yaml
from hermes.sre.probes.discovery import DiscoveryResult
from hermes.sre.probes.probe import (
    DISCOVERY_LABELS,
    STATE_LABEL,
    UNKNOWN_EXIT_CODE,
    PluginProbe,
    Probe,
    shell_command_of,
)

MAX_FILE_CHARS = 512 << 10
UNUSED_KEY = "trigger"
"""A key of older files, which was never used."""
_SHAPE_ERROR = "expected `probes:` and a list under it"


def load_probes(path: Path, home: Path | None = None) -> tuple[Probe, ...] | None:
    """Return None when there is no such file. Raises `SettingsError`. Plug-ins of `home` are
    known."""
    text = _read_file(path)
    return None if text is None else parse_probes(text, str(path), home)


def probe_file_warnings(path: Path, home: Path | None = None) -> list[str]:
    """Return what is wrong in a file that can be used all the same. Raises `SettingsError`."""
    text = _read_file(path)
    return [] if text is None else list(map(str, _parse_text(text, str(path), home)[1]))


def _read_file(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error


def parse_probes(
    text: str, file: str = "probes.yaml", home: Path | None = None
) -> tuple[Probe, ...]:
    """Raises `SettingsError` with all problems and their lines."""
    return _parse_text(text, file, home)[0]


def _parse_text(text: str, file: str, home: Path | None) -> tuple[tuple[Probe, ...], list[Problem]]:
    """The probes, and the problems in spite of which they can be used."""
    if len(text) > MAX_FILE_CHARS:
        raise SettingsError(f"{file}:1: it is larger than {MAX_FILE_CHARS >> 10} KiB")
    try:
        document = load_yaml(text, file)
    except YamlFileError as error:
        raise SettingsError(str(error.problem)) from error
    probes: list[Probe] = []
    found = list(_find_problems(document, probes, home))
    if fatal := [each for each in found if each.fatal]:
        raise SettingsError("\n".join(map(str, fatal)))
    return tuple(probes), found


def _find_problems(
    document: YamlDocument, probes: list[Probe], home: Path | None
) -> Iterator[Problem]:
    data = document.data
    if data is None:
        return
    if not isinstance(data, dict):
        yield document.problem((), _SHAPE_ERROR)
        return
    for key in data:
        if key != "probes":
            near = "; did you mean probes?" if closest_name(key, ["probes"]) else ""
            yield document.problem((key,), f"{key} is not known here{near}")
    listed = data.get("probes") or []
    if not isinstance(listed, list):
        yield document.problem(("probes",), _SHAPE_ERROR)
        return
    lines: dict[str, int] = {}
    for number, item in enumerate(listed):
        yield from _parse_probe(document, number, item, probes, lines, home)


def _parse_probe(
    document: YamlDocument,
    number: int,
    item: object,
    probes: list[Probe],
    lines: dict[str, int],
    home: Path | None,
) -> Iterator[Problem]:
    line = document.line_of("probes", number)
    if isinstance(item, dict) and UNUSED_KEY in item:
        cause = f"{UNUSED_KEY} has no effect and can be removed: incidents verify a fix themselves"
        yield document.problem(("probes", number, UNUSED_KEY), cause, fatal=False)
        item = _without(item, UNUSED_KEY)
    try:
        kind = item.get("kind") if isinstance(item, dict) else None
        if isinstance(item, dict) and isinstance(kind, str) and kind not in BUILT_IN["probes"]:
            probe: Probe = _plugin_probe(document, number, item, kind, home)
        else:
            probe = document.convert(item, Probe, "probes", number)
            shell_command_of(probe)
    except YamlFileError as error:
        yield error.problem
        return
    except SettingsError as error:
        yield document.problem(("probes", number, "what"), str(error))
        return
    if probe.name in lines:
        cause = f"the name {probe.name} is used twice, first in line {lines[probe.name]}"
        yield document.problem(("probes", number), cause)
    lines.setdefault(probe.name, line)
    probes.append(probe)


def _plugin_probe(
    document: YamlDocument, number: int, item: dict[str, Any], kind: str, home: Path | None
) -> Probe:
    """A probe whose kind is a plug-in's; a broken plug-in gives one that reports itself."""
    common = document.convert(_without(item, kind), Probe, "probes", number)
    try:
        plugin: Any = load_plugin("probes", kind, home)
    except PluginError as error:
        return _broken_probe(common, error)
    except SettingsError as error:
        problem = document.problem(("probes", number, "kind"), str(error))
        raise YamlFileError(problem) from error
    own = None
    if isinstance(plugin, PluginWithSettings):
        own = document.convert(item.get(kind) or {}, plugin.settings, "probes", number, kind)
    elif kind in item:
        cause = f"the kind {kind} has no settings"
        raise YamlFileError(document.problem(("probes", number, kind), cause))
    try:
        command = call_plugin(kind, plugin, common, own)
    except PluginError as error:
        return _broken_probe(common, error)
    if not isinstance(command, str) or not command.strip():
        return _broken_probe(common, PluginError(f"{kind} gave no command"))
    return _with_command(common, command)


def _without(item: dict[str, Any], unwanted: str) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != unwanted}


def _broken_probe(probe: Probe, error: PluginError) -> Probe:
    words = shlex.quote(_single_line(f"the plug-in is broken: {error}"))
    return _with_command(probe, f"echo {words}; exit {UNKNOWN_EXIT_CODE}")


def _with_command(probe: Probe, command: str) -> Probe:
    fields = {field: getattr(probe, field) for field in Probe.__struct_fields__}
    return PluginProbe(**fields, command=command)


_FILE_HEADER = """\
# What `hermes watch` checks on this host, and how often. You may edit it: `hermes watch --discover
# --write` asks before it replaces an edited file, and `--merge` adds new probes at the end.
#
#   interval  seconds between two runs (15)       timeout  seconds for one run (5)
#   fails     failures in a row before an alert (2)
#   limit     percent used, days left, seconds taken, lines a minute
#   baseline  true: also fails far above the usual values, once enough are known
#   severity, impact   hints for triage
#
# Kinds: cpu load memory disk inodes processes zombies · port http tls certificate unit cron ·
# log answers · postgres mysql redis sqlite locks · config forecast · command (a shell text
# that only reads; 0 is fine)
"""
_CHECKSUM_PREFIX = "# as found: "
_SECTION_COMMENTS = {
    "cpu": "The host",
    "disk": "Space",
    "unit": "Units",
    "port": "Ports",
    "http": "Web pages; `status` is what counts as fine",
    "answers": "Answers to the requests of users, by the logs of the services",
    "certificate": "Certificates; `limit` is days",
    "config": "Configurations: would the next start fail?",
    "cron": "Jobs: their program exists, and their log has no errors",
    "log": "Logs: lines a minute that match `pattern`, against what is usual",
    "postgres": "Databases and caches",
}


def render_probe_file(found: DiscoveryResult) -> str:
    notes = "".join(f"# note: {_single_line(note)}\n" for note in found.notes)
    body = f"{_FILE_HEADER}{notes}\nprobes:\n{_render_probes(found.probes)}"
    return f"{_CHECKSUM_PREFIX}{_checksum(body)}\n{body}"


def is_unedited(text: str) -> bool:
    """Return whether the file is as Hermes wrote it."""
    first, _, body = text.partition("\n")
    return first == f"{_CHECKSUM_PREFIX}{_checksum(body)}"


def merge_probes(
    text: str,
    found: DiscoveryResult,
    *,
    live: bool,
    file: str = "probes.yaml",
    home: Path | None = None,
) -> str:
    """Append new probes: as comments, or active if `live`. Raises `SettingsError`."""
    known = {probe.name for probe in parse_probes(text, file, home)}
    known |= set(re.findall(r"^\s*#\s*- name: (\S+)", text, re.MULTILINE))
    new = [probe for probe in found.probes if probe.name not in known]
    if not new:
        return text
    lines = "".join(map(_render_probe, new))
    if not live:
        lines = "".join(f"  # {line[2:]}\n" for line in lines.splitlines())
    start = text if text.endswith("\n") or not text else f"{text}\n"
    if not re.search(r"^probes:", start, re.MULTILINE):
        start += "probes:\n"
    whole = f"{start}\n  # found later\n{lines}"
    try:
        parse_probes(whole, file, home)
    except SettingsError as error:
        raise SettingsError(
            f"{file}: new finds cannot be added at its end, its list is written in another way; "
            f"add them by hand from `hermes watch --discover` ({error})"
        ) from error
    return whole


def _render_probes(probes: Sequence[Probe]) -> str:
    parts, used = [], set[str]()
    for probe in probes:
        about = _SECTION_COMMENTS.get(probe.kind, "")
        if about and about not in used:
            used.add(about)
            parts.append(f"\n  # {about}\n")
        parts.append(_render_probe(probe))
    return "".join(parts)


def _render_probe(probe: Probe) -> str:
    fields = msgspec.to_builtins(probe)
    labels = {
        key: value for key, value in probe.labels.items() if key not in DISCOVERY_LABELS and value
    }
    fields.pop("labels", None)
    if labels:
        fields["labels"] = labels
    now = probe.labels.get(STATE_LABEL, "fine")
    comment = f"  # {now} when it was found" if now != "fine" else ""
    first, *rest = (f"{key}: {_render_scalar(value)}" for key, value in fields.items())
    return "".join([f"  - {first}{comment}\n", *(f"    {line}\n" for line in rest)])


def _render_scalar(value: object) -> str:
    """JSON is YAML; plain words need no quotes."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z/][\w./-]*", value):
        return json.dumps(value) if value.lower() in _YAML_KEYWORDS else value
    return json.dumps(value, ensure_ascii=False)


_YAML_KEYWORDS = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})


def _single_line(text: str) -> str:
    return " ".join(text.split())


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]
