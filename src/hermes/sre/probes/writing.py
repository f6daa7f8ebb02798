"""Probes as the file that people edit: explained, and never taken out of their hands."""

import hashlib
import json
import re
from collections.abc import Sequence

import msgspec

from hermes.core.errors import SettingsError
from hermes.sre.probes.discovery import Discovery
from hermes.sre.probes.marks import MARKS, NOW
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.reading import read_probes

_HEAD = """\
# What `hermes watch` asks this host, and how often. Edit it as you like: `hermes watch --discover
# --write` asks before it replaces what you wrote, and `--merge` adds new finds at the end.
#
#   interval  seconds between two looks (15)      timeout  seconds for one look (5)
#   fails     bad looks in a row before an alert (2)
#   limit     where bad begins: percent used, days left, seconds taken, lines a minute
#   baseline  true: also bad when far above what was usual, once enough is known
#   severity, impact   hints for triage          trigger  what may be set off again to verify
#
# Kinds: cpu load memory disk inodes processes zombies · port http tls certificate unit cron ·
# log answers · postgres mysql redis sqlite · config forecast · command (a shell text that only
# reads; 0 is fine)
"""
_MARK = "# as found: "
_ABOUT = {
    "cpu": "The host",
    "disk": "Space",
    "unit": "What is supervised",
    "port": "What listens",
    "http": "Web pages; `status` is what counts as fine",
    "answers": "What services note about the requests of their users: nobody is asked",
    "certificate": "Certificates; `limit` is days",
    "config": "Configurations: would the next start fail?",
    "cron": "Jobs: their program is there, and their log tells of no trouble",
    "log": "Logs: lines a minute that match `pattern`, against what is usual",
    "postgres": "Databases and caches",
}


def written(found: Discovery) -> str:
    """The whole file."""
    notes = "".join(f"# note: {_plain(note)}\n" for note in found.notes)
    body = f"{_HEAD}{notes}\nprobes:\n{_listed(found.probes)}"
    return f"{_MARK}{_sum(body)}\n{body}"


def is_as_found(text: str) -> bool:
    """Whether nobody has touched it since it was written."""
    first, _, body = text.partition("\n")
    return first == f"{_MARK}{_sum(body)}"


def merged(text: str, found: Discovery, *, live: bool, file: str = "probes.yaml") -> str:
    """The file with what is new at its end: as comments, or `live`. Raises `SettingsError`."""
    known = {probe.name for probe in read_probes(text, file)}
    known |= set(re.findall(r"^\s*#\s*- name: (\S+)", text, re.MULTILINE))
    new = [probe for probe in found.probes if probe.name not in known]
    if not new:
        return text
    lines = "".join(map(_entry, new))
    if not live:
        lines = "".join(f"  # {line[2:]}\n" for line in lines.splitlines())
    start = text if text.endswith("\n") or not text else f"{text}\n"
    if not re.search(r"^probes:", start, re.MULTILINE):
        start += "probes:\n"
    whole = f"{start}\n  # found later\n{lines}"
    try:
        read_probes(whole, file)
    except SettingsError as error:
        raise SettingsError(
            f"{file}: new finds cannot be added at its end, its list is written in another way; "
            f"add them by hand from `hermes watch --discover` ({error})"
        ) from error
    return whole


def _listed(probes: Sequence[Probe]) -> str:
    parts, told = [], set[str]()
    for probe in probes:
        about = _ABOUT.get(probe.kind, "")
        if about and about not in told:
            told.add(about)
            parts.append(f"\n  # {about}\n")
        parts.append(_entry(probe))
    return "".join(parts)


def _entry(probe: Probe) -> str:
    fields = msgspec.to_builtins(probe)
    labels = {key: value for key, value in probe.labels.items() if key not in MARKS and value}
    fields.pop("labels", None)
    if labels:
        fields["labels"] = labels
    now = probe.labels.get(NOW, "fine")
    comment = f"  # {now} when it was found" if now != "fine" else ""
    first, *rest = (f"{key}: {_scalar(value)}" for key, value in fields.items())
    return "".join([f"  - {first}{comment}\n", *(f"    {line}\n" for line in rest)])


def _scalar(value: object) -> str:
    """JSON is YAML; plain words need no quotes."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z/][\w./-]*", value):
        return json.dumps(value) if value.lower() in _WORDS else value
    return json.dumps(value, ensure_ascii=False)


_WORDS = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})


def _plain(text: str) -> str:
    return " ".join(text.split())


def _sum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]
