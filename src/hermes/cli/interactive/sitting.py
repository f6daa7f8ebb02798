"""A chat from the greeting to the goodbye."""

from collections.abc import Callable, Sequence

import anyio
from msgspec.structs import replace

from hermes.cli.interactive.approval import TerminalApprover
from hermes.cli.interactive.banner import banner
from hermes.cli.interactive.completion import SlashCompleter
from hermes.cli.interactive.desk import TURN, Desk
from hermes.cli.interactive.prompt import PromptTerminal
from hermes.cli.interactive.questions import Questions
from hermes.cli.interactive.reception import Reception
from hermes.cli.interactive.resuming import welcome_back
from hermes.cli.interactive.shapes import Facts, House, Look, Reach, Terminal
from hermes.cli.render_safe import clean
from hermes.cli.stored import run_to_resume


class Sitting:
    """What must exist before the house does (it needs somebody to ask), and then the chat."""

    def __init__(self, terminal: Terminal, look: Look) -> None:
        self.terminal = terminal
        self.look = look
        self.questions = Questions(terminal)
        self.approver = TerminalApprover(self.questions, terminal, look.ink)

    async def chat(
        self,
        house: House,
        facts: Facts,
        *,
        resume: str | None = None,
        model: str = "",
        warnings: Sequence[str] = (),
        reach: Callable[[str], Reach] | None = None,
    ) -> None:
        """`resume` is a run, or empty for the newest; None begins a new session. `reach` tells
        whether the model of this name can be reached."""
        if resume is None:
            conversation = await house.begin()
        else:
            conversation = await house.resume(await run_to_resume(house.journal, resume))
        if model:  # written down, so that whoever resumes it asks the same one
            await conversation.switch(house.open_model(model))
        facts = replace(facts, model=conversation.model.name)  # a resumed one may have its own
        desk = Desk(
            house,
            conversation,
            self.terminal,
            self.questions,
            facts=facts,
            look=self.look,
        )
        if isinstance(self.terminal, PromptTerminal):
            self.terminal.completer = SlashCompleter(desk)
        reached = reach(conversation.model.name) if reach is not None else None
        await self._greet(desk, warnings, reached.words if reached else "")
        async with anyio.create_task_group() as group:
            await group.start(desk.watcher.run)
            group.start_soon(self.terminal.run)
            group.start_soon(desk.animate)
            if reached is not None:
                group.start_soon(_say_whether_reached, desk, reached)
            if resume is not None:
                desk.start(group, TURN, lambda: welcome_back(desk))
            await Reception(desk, group).serve()
            await desk.close()
            group.cancel_scope.cancel()
        await self._goodbye(desk)

    async def _greet(self, desk: Desk, warnings: Sequence[str], model: str) -> None:
        if self.look.banner:
            run, width = desk.conversation.run, self.terminal.width
            facts = replace(desk.facts, model=model or desk.facts.model)
            greeting = banner(facts, run=run, width=width, ink=self.look.ink)
            await self.terminal.print(greeting + "\n")
        for warning in warnings:
            await desk.note(clean(warning), "error")

    async def _goodbye(self, desk: Desk) -> None:
        conversation = desk.conversation
        if any(message.role == "user" for message in conversation.messages):
            await self.terminal.print(
                self.look.ink.dim(f"to go on with this: hermes --resume {conversation.run}")
            )


async def _say_whether_reached(desk: Desk, reach: Reach) -> None:
    """Beside the chat: a server that does not answer must not delay the prompt."""
    if why := await reach.trouble():
        await desk.note(clean(f"{reach.name}: {why}"), "error")
