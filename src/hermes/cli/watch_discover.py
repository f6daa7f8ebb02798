"""`hermes watch --discover`: what there is to watch on this host, shown or written down."""

from pathlib import Path

import anyio
import click
import msgspec

from hermes.cli import exits
from hermes.cli.loading import settings_for
from hermes.cli.output import confirm, emit_json, json_option, note, table
from hermes.core.errors import SettingsError
from hermes.settings.load import Loaded
from hermes.sre.probes.discovery import Discovery, discover
from hermes.sre.probes.inventory import InventoryStore, missing_probes
from hermes.sre.probes.marks import NOW, PROVISIONAL
from hermes.sre.probes.reading import load_probes, read_probes
from hermes.sre.probes.settings import ProbeSettings
from hermes.sre.probes.writing import is_as_found, merged, written


@click.command(name="discover")
@click.option("--write", is_flag=True, help="Write it to probes.yaml; asks before it replaces.")
@click.option("--merge", is_flag=True, help="With --write: add what is new, keep what is there.")
@click.option("--yes", is_flag=True, help="Replace an edited file without asking.")
@json_option
@click.pass_context
def discovering(ctx: click.Context, write: bool, merge: bool, yes: bool, as_json: bool) -> int:
    """Look over the place of work once and say what deserves a probe. Changes nothing there.

    \b
    Examples:
      hermes watch --discover
      hermes watch --discover --json
      hermes watch --discover --write
      hermes watch --discover --write --merge
    """
    loaded = settings_for(ctx)
    found = anyio.run(_look, loaded)
    if as_json:
        emit_json(msgspec.to_builtins(found))
    else:
        show(found)
    if write or merge:
        note(keep(probes_file(loaded), settled(found), merge=merge, yes=yes))
    return exits.OK


def probes_file(loaded: Loaded, settings: ProbeSettings | None = None) -> Path:
    return loaded.home / (settings or ProbeSettings()).file


async def _look(loaded: Loaded) -> Discovery:
    from hermes.app.environment import place

    async with place(loaded, Path.cwd()) as here:
        found = await discover(here, patience=1.0, failing_too=True)
        known = InventoryStore(loaded.home, here.target).load()
    missing = missing_probes(known, found.probes)
    return msgspec.structs.replace(found, probes=(*found.probes, *missing))


def settled(found: Discovery) -> Discovery:
    """Without what may end at any time: in the file it would be expected for good."""
    passing = [each for each in found.probes if PROVISIONAL in each.labels]
    names = sorted({each.service for each in passing})
    notes = (f"{name} is not written down: it has not run for long and may end" for name in names)
    stays = tuple(each for each in found.probes if each not in passing)
    return msgspec.structs.replace(found, probes=stays, notes=(*found.notes, *notes))


def show(found: Discovery) -> None:
    rows = [
        (probe.name, probe.kind, probe.what, probe.service, probe.labels.get(NOW, "–"))
        for probe in found.probes
    ]
    table(("probe", "kind", "what", "service", "now"), rows, empty="nothing to watch was found")
    for each in found.notes:
        note(each)


def keep(path: Path, found: Discovery, *, merge: bool, yes: bool) -> str:
    """What was done, in words. What a person wrote is replaced only with a yes."""
    earlier = load_probes(path)  # a broken file is said to be broken before anything is done
    if earlier is None:
        return _write(path, written(found), f"{len(found.probes)} probes are in {path}")
    text = path.read_text()
    if merge:
        whole = merged(text, found, live=True, file=str(path))
        added = len(read_probes(whole)) - len(earlier)
        return _write(path, whole, f"{added} new probes were added to {path}")
    if is_as_found(text) or yes:
        return _write(path, written(found), f"{len(found.probes)} probes are in {path}")
    whole = merged(text, found, live=False, file=str(path))
    question = f"{path} was edited. Replace it? No adds what is new as comments."
    if _answer(question):
        return _write(path, written(found), f"{len(found.probes)} probes are in {path}")
    if whole == text:
        return f"{path} stays as it is: nothing new was found"
    return _write(path, whole, f"what is new stands as comments at the end of {path}")


def _answer(question: str) -> bool:
    """Nobody at the keyboard is a no, and a no loses nothing."""
    try:
        return confirm(question)
    except click.UsageError:
        return False


def _write(path: Path, text: str, said: str) -> str:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.new")
        new.write_text(text)
        new.replace(path)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from error
    return said
