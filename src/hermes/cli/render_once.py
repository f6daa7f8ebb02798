"""One question, one answer: text to stdout, what happens on the way to stderr."""

import shutil
import signal
import sys
from typing import Any

import anyio
import msgspec

from hermes.agent.conversation import Conversation
from hermes.cli import exits
from hermes.cli.output import emit_json, note
from hermes.cli.render import Transcript
from hermes.cli.render_safe import clean
from hermes.cli.render_watch import Watcher
from hermes.cli.render_work import Progress, progress_of
from hermes.cli.render_writing import Piece
from hermes.core.bus import Bus
from hermes.core.errors import HermesError
from hermes.core.messages import Value
from hermes.settings.load import Loaded

CODES = {"answered": exits.OK, "interrupted": exits.INTERRUPTED}


class Manner(Value, frozen=True, kw_only=True):
    """How the answer is wanted."""

    as_json: bool = False
    quiet: bool = False
    stream: bool = False
    """Text goes out as it is written, what is said between tool calls with it."""
    unattended: bool = False
    """Nobody watches: after a crash it goes on by itself."""
    reasoning: bool = False
    progress: Progress = "all"


async def answer_once(
    loaded: Loaded, question: str, run: str | None, manner: Manner, options: dict[str, Any]
) -> int:
    """`run` is a conversation to go on with, empty for the latest; None begins a new one."""
    from hermes.app import open_house

    display = loaded.settings.display
    manner = msgspec.structs.replace(
        manner, reasoning=display.reasoning, progress=progress_of(display)
    )
    async with open_house(loaded, origin="cli", **options) as house:
        if run is None:
            conversation = await house.begin(question, unattended=manner.unattended)
        else:
            from hermes.cli.stored import run_to_resume

            conversation = await house.resume(await run_to_resume(house.journal, run))
        if options.get("model"):  # written down, so that whoever resumes it asks the same one
            await conversation.switch(house.open_model(options["model"]))
        for warning in house.warnings:
            note(warning)
        return await ask(conversation, house.bus, question, manner)


async def ask(conversation: Conversation, bus: Bus, question: str, manner: Manner) -> int:
    """The exit code. Without a question it carries on what was cut off."""
    once = _Once(conversation, manner)
    watcher = Watcher(bus, once.transcript, once.tell)
    async with anyio.create_task_group() as group:
        await group.start(watcher.run)
        group.start_soon(_heed_interrupts, conversation, group.cancel_scope)
        await once.say(question)
        await watcher.settle()
        group.cancel_scope.cancel()
    code = once.finish()
    if hint := once.transcript.refused.hint():
        note(hint)
    return code


class _Once:
    def __init__(self, conversation: Conversation, manner: Manner) -> None:
        self._conversation = conversation
        self._manner = manner
        self._answer = ""
        self._error: HermesError | None = None
        self._outcome = "interrupted"
        self.transcript = Transcript(
            conversation.run,
            whole=False,
            reasoning=manner.reasoning,
            progress=manner.progress,
            width=lambda: shutil.get_terminal_size().columns,
        )
        self._streams = manner.stream and not manner.quiet and not manner.as_json

    async def say(self, question: str) -> None:
        conversation, nothing = self._conversation, False
        try:
            if question:
                self._answer = await conversation.say(question)
            else:
                answer = await conversation.carry_on()
                self._answer, nothing = answer or "", answer is None
        except HermesError as error:
            self._error = error
        ended = conversation.ended
        if self._error is not None:
            self._outcome = "failed"
        else:
            self._outcome = "answered" if nothing or ended is None else ended.outcome

    async def tell(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if piece.kind == "text":
                if self._streams:
                    _write(sys.stdout, piece.text)
            elif piece.kind == "reasoning":
                if self._streams:
                    _write(sys.stderr, piece.text)
            elif piece.kind in ("tool", "note") and not self._manner.quiet:
                _write(sys.stderr, piece.text + "\n")
            elif piece.kind == "error" and self._error is None and not self._manner.quiet:
                _write(sys.stderr, f"✗ {piece.text}\n")

    def finish(self) -> int:
        if self._manner.as_json:
            emit_json(self._summary())
        elif self._error is not None:
            raise self._error  # the front door says it and knows the exit code
        elif not self._streams and self._answer:
            _write(sys.stdout, clean(self._answer).rstrip("\n") + "\n")
        elif not self._answer and self._outcome == "answered":
            note("there was nothing to carry on; ask with -q TEXT")
        if self._error is not None:
            return exits.code_of(self._error)
        return CODES.get(self._outcome, exits.FAILED)

    def _summary(self) -> dict[str, object]:
        usage = msgspec.structs.asdict(self._conversation.usage)
        usage["cost_usd"] = usage["cost_usd"] or None  # no price known is not a price of nothing
        summary: dict[str, object] = {
            "answer": self._answer,
            "run": self._conversation.run,
            "usage": usage,
            "outcome": self._outcome,
        }
        reason = str(self._error or "") or (
            self._conversation.ended.reason if self._conversation.ended else ""
        )
        return {**summary, "reason": reason} if reason else summary


async def _heed_interrupts(conversation: Conversation, everything: anyio.CancelScope) -> None:
    """Ctrl-C lets the turn write down that it was interrupted; a second one does not wait."""
    with anyio.open_signal_receiver(signal.SIGINT) as signals:
        async for _ in signals:
            if not conversation.running:
                everything.cancel()
            conversation.interrupt()
            async for _ in signals:
                everything.cancel()


def _write(stream: Any, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:  # a terminal that knows few letters shows ? for the others
        stream.write(text.encode(stream.encoding, "replace").decode(stream.encoding))
    stream.flush()
