"""Slash commands that change something: the session, the model, the screen, a file."""

from hermes.cli.interactive import personalities
from hermes.cli.interactive.desk import Desk
from hermes.cli.interactive.resuming import welcome_back
from hermes.cli.interactive.saving import save_conversation
from hermes.cli.interactive.views import table
from hermes.cli.render_safe import clean, clip
from hermes.cli.stored import run_to_resume
from hermes.core.errors import HermesError
from hermes.core.events.runs import RunRenamed


async def clear(desk: Desk, argument: str) -> None:
    await desk.terminal.clear()


async def new(desk: Desk, argument: str) -> None:
    desk.turn_to(await desk.house.begin())
    await desk.note(f"a new session: {desk.conversation.run}")


async def model(desk: Desk, argument: str) -> None:
    if not argument:
        await table(desk, [("model", desk.conversation.model.name)])
        return
    try:
        chosen = await desk.house.checked_model(argument)
    except HermesError as error:
        still = f"the model is still {desk.conversation.model.name}"
        await desk.note(f"{clean(str(error))}\n{still}", "error")
        return
    await desk.conversation.switch(chosen)


async def compress(desk: Desk, argument: str) -> None:
    if await desk.conversation.compress() is None:
        await desk.note("there is nothing to compress yet")


async def undo(desk: Desk, argument: str) -> None:
    words = await desk.conversation.undo()
    if words is None:
        await desk.note("there is nothing to take back", "error")
        return
    await desk.note(
        f"taken back: {clip(clean(words), 60)}\nwhat tools did in the world is not undone by this"
    )


async def retry(desk: Desk, argument: str) -> None:
    words = await desk.conversation.undo()
    if words is None:
        await desk.note("there is nothing to ask again", "error")
        return
    await desk.note(f"again: {clip(clean(words), 60)}")
    await desk.conversation.say(words)


async def save(desk: Desk, argument: str) -> None:
    written = save_conversation(
        argument, run=desk.conversation.run, messages=desk.conversation.messages
    )
    await desk.note(written)


async def personality(desk: Desk, argument: str) -> None:
    known = desk.facts.personalities
    if not argument:
        await table(desk, sorted(known.items()))
    elif argument not in known:
        await desk.note(
            f"no personality {argument!r}; there are: {', '.join(sorted(known))}", "error"
        )
    else:
        desk.tone = personalities.instruction(argument, known[argument])
        await desk.note(f"{argument}: from your next message on")


async def resume(desk: Desk, argument: str) -> None:
    now = desk.conversation.run
    wanted = await run_to_resume(desk.house.journal, argument, besides=now)
    if not wanted:
        await desk.note("there is no other session yet", "error")
        return
    desk.turn_to(await desk.house.resume(wanted))
    await welcome_back(desk)


async def title(desk: Desk, argument: str) -> None:
    if not argument:
        await desk.note("give it a name: /title NAME", "error")
        return
    await desk.house.bus.publish(RunRenamed(run=desk.conversation.run, title=argument))
    await desk.note(f"this session is now called {clean(argument)}")


async def stop(desk: Desk, argument: str) -> None:
    if not desk.stop():
        await desk.note("nothing is running")


async def verbose(desk: Desk, argument: str) -> None:
    more = not desk.transcript.work.verbose
    desk.transcript.work.verbose = more
    desk.transcript.writing.reasoning = more or desk.look.reasoning
    await desk.note("showing more: results and reasoning" if more else "showing less")


async def leave(desk: Desk, argument: str) -> None:
    desk.terminal.leave()
