"""`probes.yaml` into checked probes; every mistake with its line, not only the first."""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from hermes.core.errors import SettingsError
from hermes.skills.format.places import Document, Mistake
from hermes.sre.probes.command import command_of
from hermes.sre.probes.probe import Probe

LARGEST = 512 << 10
_SHAPE = "expected `probes:` and a list under it"


def load_probes(path: Path) -> tuple[Probe, ...] | None:
    """None when there is no such file. Raises `SettingsError`."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    return read_probes(text, str(path))


def read_probes(text: str, file: str = "probes.yaml") -> tuple[Probe, ...]:
    """Raises `SettingsError` that names every mistake with its line."""
    if len(text) > LARGEST:
        raise SettingsError(f"{file}:1: it is larger than {LARGEST >> 10} KiB")
    try:
        document = Document(text)
    except Mistake as mistake:
        raise SettingsError(f"{file}:{mistake.line}: {mistake}") from mistake
    probes: list[Probe] = []
    found = [f"{file}:{line}: {cause}" for line, cause in _mistakes(document, probes)]
    if found:
        raise SettingsError("\n".join(found))
    return tuple(probes)


def _mistakes(document: Document, probes: list[Probe]) -> Iterator[tuple[int, str]]:
    data = document.data
    if data is None:
        return
    if not isinstance(data, dict):
        yield document.line(), _SHAPE
        return
    for key in data:
        if key != "probes":
            near = "; did you mean probes?" if get_close_matches(key, ["probes"]) else ""
            yield document.line(key), f"{key} is not known here{near}"
    listed = data.get("probes") or []
    if not isinstance(listed, list):
        yield document.line("probes"), _SHAPE
        return
    lines: dict[str, int] = {}
    for number, item in enumerate(listed):
        yield from _one(document, number, item, probes, lines)


def _one(
    document: Document, number: int, item: object, probes: list[Probe], lines: dict[str, int]
) -> Iterator[tuple[int, str]]:
    line = document.line("probes", number)
    try:
        probe = document.fit(item, Probe, "probes", number)
        command_of(probe)
    except Mistake as mistake:
        yield mistake.line, str(mistake)
        return
    except SettingsError as error:
        yield document.line("probes", number, "what"), str(error)
        return
    if probe.name in lines:
        yield line, f"the name {probe.name} is used twice, first in line {lines[probe.name]}"
    lines.setdefault(probe.name, line)
    probes.append(probe)
