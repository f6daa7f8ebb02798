"""`hermes demo`: a small job is broken, found out, mended and checked, in a sandbox, offline."""

import tempfile
from pathlib import Path

import anyio
import click

from hermes.agent.conversation import Conversation
from hermes.cli.demo_story import ALERT, CHECK, NOSY, lay_out, write_script
from hermes.cli.lazy import Examples
from hermes.cli.output import note, say
from hermes.cli.render_once import Manner, ask
from hermes.core.errors import PlaceFailed
from hermes.settings.load import Loaded, load


@click.command(cls=Examples, examples="hermes demo     needs no key and no network")
def demo() -> int:
    """Show the main job on embedded defaults: in a home and a folder of its own, gone at the end.

    The model is scripted and says so; tools, sandbox, policy and journal are the real ones.
    """
    with tempfile.TemporaryDirectory(prefix="hermes-demo-") as folder:
        return anyio.run(_play, Path(folder))


async def _play(folder: Path) -> int:
    work, script = folder / "work", folder / "script.jsonl"
    work.mkdir()
    lay_out(work)
    write_script(script)
    try:
        return await _converse(_settings(folder, script, "sandbox"), work)
    except PlaceFailed as error:
        note(f"no sandbox here ({error}); the demo goes on in a temporary folder of this machine")
        return await _converse(_settings(folder, script, "local"), work)


def _settings(folder: Path, script: Path, backend: str) -> Loaded:
    return load(
        home=folder / "home",
        overrides={"model.default": f"scripted:{script}", "terminal.backend": backend},
    )


async def _converse(loaded: Loaded, work: Path) -> int:
    from hermes.app import open_house

    async with open_house(loaded, directory=work) as house:
        place = house.means.environment
        say(f"A broken backup job, in a {place.name} without network or foreign files.")
        say("The model here is scripted: it says what it was told to. All else is real.\n")
        say(f"❯ {ALERT}\n")
        conversation = await house.begin(ALERT)
        code = await ask(conversation, house.bus, ALERT, Manner(stream=True))
        say(f"\n· asked for {NOSY!r} it got: {_seen(conversation, NOSY)}")
        checked = await place.run(CHECK)
        say(
            f"{'✓' if checked.exit_code == 0 else '✗'} check by Hermes itself: "
            f"{checked.output.strip() or 'the archive is not as it should be'}"
        )
        again = await house.resume(conversation.run)
        same = again.messages == conversation.messages
        events = [recorded async for recorded in house.journal.read(run=conversation.run)]
        say(
            f"{'✓' if same else '✗'} {len(events)} events in the journal; read back, they give the "
            "same conversation: this is how it goes on after a crash"
        )
    return code or int(checked.exit_code != 0 or not same)


def _seen(conversation: Conversation, command: str) -> str:
    """The first line that a command of the model printed."""
    asked = {call.id: call for message in conversation.messages for call in message.calls}
    for message in conversation.messages:
        call = asked.get(message.result.call_id) if message.result else None
        if message.result and call and call.arguments.get("command") == command:
            return message.result.content.partition("\n")[0]
    return "nothing"
