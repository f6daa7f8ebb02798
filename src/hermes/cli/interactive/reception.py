"""What was entered goes where it belongs: a question, a command, the running turn, a new turn."""

import re
import time

from anyio.abc import TaskGroup

from hermes.cli.interactive.commands import find, nearest
from hermes.cli.interactive.desk import TURN, Desk
from hermes.cli.interactive.shapes import Interrupted
from hermes.cli.render_safe import clean
from hermes.core.errors import HermesError

AGAIN = 1.0
"""Seconds in which a second Ctrl-C means leaving."""
_COMMAND = re.compile(r"/([a-zA-Z?]+)(?:\s+(.*))?", re.DOTALL)


class Reception:
    def __init__(self, desk: Desk, group: TaskGroup) -> None:
        self._desk = desk
        self._group = group
        self._interrupted_at = -AGAIN

    async def serve(self) -> None:
        """Until the person leaves."""
        desk = self._desk
        while True:
            desk.expect()
            try:
                line = await desk.terminal.read()
            except Interrupted:
                await self._interrupted()
            except EOFError:
                return
            else:
                await self.take(line)

    async def take(self, line: str) -> None:
        desk, text = self._desk, line.strip()
        await desk.settled()
        if desk.questions.label:
            await self._answered(text)
        elif not text:
            return
        elif command := _COMMAND.fullmatch(text):
            await self._echo(text)
            await self._command(command[1].lower(), (command[2] or "").strip())
        elif not desk.busy:
            await self._echo(text)
            words, desk.tone = desk.tone + text, ""
            desk.start(self._group, TURN, lambda: desk.conversation.say(words))
        elif desk.busy == TURN:
            await self._echo(text)
            desk.conversation.steer(text)
        else:
            await desk.note(f"{desk.busy}: wait, or /stop it", "error")

    async def _answered(self, text: str) -> None:
        desk = self._desk
        label = desk.questions.label
        if desk.questions.offer(text):
            await self._echo(text or "(nothing)", label)
        else:
            await desk.note(f"not an answer to this: {clean(text) or '(nothing)'}", "error")

    async def _command(self, name: str, argument: str) -> None:
        desk, command = self._desk, find(name)
        if command is None:
            meant = nearest(name)
            hint = f"did you mean /{meant}?" if meant else "/help lists them"
            await desk.note(f"there is no command /{name}; {hint}", "error")
        elif not command.doing:
            try:
                await command.run(desk, argument)
            except HermesError as error:
                await desk.note(clean(str(error)), "error")
        elif desk.busy:
            await desk.note(f"/{name} must wait: {desk.busy}. /stop interrupts it", "error")
        else:
            run = command.run
            desk.start(self._group, command.doing, lambda: run(desk, argument))

    async def _interrupted(self) -> None:
        """Refuse, stop, or drop what was typed; twice at once at an empty prompt is goodbye."""
        desk, now = self._desk, time.monotonic()
        again = now - self._interrupted_at < AGAIN
        self._interrupted_at = now
        if desk.questions.refuse():
            await desk.note("refused")
        elif desk.stop() or desk.terminal.discard():
            return
        elif again:
            desk.terminal.leave()
        else:
            await desk.note("Ctrl-C again leaves; the session can be resumed")

    async def _echo(self, text: str, label: str = "❯ ") -> None:
        """The input is wiped when it is sent, so what was said is written above it."""
        desk = self._desk
        if desk.terminal.drawn:
            said = clean(text).replace("\n", "\n… ")
            await desk.terminal.print(desk.look.ink.bold(f"{label}{said}"))
