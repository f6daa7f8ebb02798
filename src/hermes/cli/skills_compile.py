"""`hermes skills compile`: proves a Python skill that somebody wrote by hand, without a model."""

from pathlib import Path

import anyio
import click

from hermes.app.approving import user_name
from hermes.app.learning import Workshop
from hermes.app.veil import Veil
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, say
from hermes.cli.skills_desk import RUN
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.memory.opening import open_journal
from hermes.settings.load import Loaded
from hermes.skills.compiler.draft import Draft, read_folder
from hermes.skills.compiler.forge import Compiled
from hermes.skills.compiler.registered import Registered
from hermes.skills.history import copy_skill


@click.command(
    name="compile",
    cls=Examples,
    examples="hermes skills compile ./generate-csv-report\nhermes skills compile . --json",
)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@json_option
@click.pass_context
def compile_(ctx: click.Context, folder: Path, as_json: bool) -> None:
    """Look over the Python skill in FOLDER, run its tests in a sandbox, and register it.

    FOLDER holds scripts/NAME.py with one function NAME, and tests/test_NAME.py. Once its tests pass
    it lies in your skills and the agent has it as a tool. Nothing is registered otherwise.
    """
    loaded = settings_for(ctx)
    folder = folder.resolve()
    draft = read_folder(folder)
    if folder.is_relative_to(loaded.home / "skills") and folder.name != draft.skill:
        raise SettingsError(f"{folder} has to be called {draft.skill}, after its function")
    made, known = anyio.run(_compile, loaded, folder, draft, as_json)
    if as_json:
        emit_json({"skill": known, "tests": made.output.splitlines()})
        return
    for line in made.output.splitlines():
        say(line)
    say(f"{known.function} is a tool now; see: hermes skills show {known.skill}")


async def _compile(
    loaded: Loaded, folder: Path, draft: Draft, quiet: bool
) -> tuple[Compiled, Registered]:
    workshop = Workshop(loaded)
    async with open_journal(loaded.store, patience=loaded.settings.store.patience) as journal:
        publish = Bus(journal, clean=Veil(loaded).event).publish
        heard = None if quiet else note
        made = await workshop.prove(draft, publish, RUN, heard)
        target = workshop.root / draft.skill
        if folder != target and not target.exists():  # with its own manual and references
            copy_skill(folder, target)
        known = await workshop.keep(made, publish, RUN, user_name())
        await workshop.registered(draft, publish, RUN, heard)
        return made, known
