"""One question, one answer: text to stdout, what happens on the way to stderr."""

import shutil
import signal
import sys
from typing import Any

import anyio
import msgspec

from hermes.agent.conversation import Conversation
from hermes.cli import exit_codes
from hermes.cli.output import note, print_json
from hermes.cli.render.answer_stream import OutputFragment
from hermes.cli.render.terminal_text import clean
from hermes.cli.render.tool_progress import ProgressMode, progress_mode
from hermes.cli.render.transcript import Transcript, TranscriptFollower
from hermes.core.bus import Bus
from hermes.core.errors import HermesError
from hermes.core.messages import Value
from hermes.settings.load import LoadedSettings

EXIT_CODE_BY_OUTCOME = {"answered": exit_codes.OK, "interrupted": exit_codes.INTERRUPTED}


class OneShotOptions(Value, frozen=True, kw_only=True):
    """How the answer is wanted."""

    as_json: bool = False
    quiet: bool = False
    stream: bool = False
    """Text goes out as it is written, what is said between tool calls with it."""
    unattended: bool = False
    """Nobody watches: after a crash it goes on by itself."""
    reasoning: bool = False
    progress: ProgressMode = "all"


async def answer_once(
    loaded: LoadedSettings,
    question: str,
    run: str | None,
    manner: OneShotOptions,
    options: dict[str, Any],
) -> int:
    """`run` is a conversation to go on with, empty for the latest; None begins a new one."""
    from hermes.app import open_application

    display = loaded.settings.display
    manner = msgspec.structs.replace(
        manner, reasoning=display.reasoning, progress=progress_mode(display)
    )
    async with open_application(loaded, origin="cli", **options) as house:
        if run is None:
            conversation = await house.begin(question, unattended=manner.unattended)
        else:
            from hermes.cli.context import run_to_resume

            conversation = await house.resume(await run_to_resume(house.journal, run))
        if options.get("model"):  # written down, so that whoever resumes it asks the same one
            await conversation.switch(house.open_model(options["model"]))
        for warning in house.warnings:
            note(warning)
        return await ask_once(conversation, house.bus, question, manner)


async def ask_once(
    conversation: Conversation, bus: Bus, question: str, manner: OneShotOptions
) -> int:
    """The exit code. Without a question it carries on what was cut off."""
    once = _OneShotOutput(conversation, manner)
    watcher = TranscriptFollower(bus, once.transcript, once.print_fragments)
    async with anyio.create_task_group() as group:
        await group.start(watcher.run)
        group.start_soon(_handle_interrupts, conversation, group.cancel_scope)
        await once.say(question)
        await watcher.wait_until_shown()
        group.cancel_scope.cancel()
    code = once.finish()
    if hint := once.transcript.refused.hint():
        note(hint)
    return code


class _OneShotOutput:
    def __init__(self, conversation: Conversation, manner: OneShotOptions) -> None:
        self._conversation = conversation
        self._manner = manner
        self._answer = ""
        self._error: HermesError | None = None
        self._outcome = "interrupted"
        self.transcript = Transcript(
            conversation.run,
            block_mode=False,
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

    async def print_fragments(self, pieces: list[OutputFragment]) -> None:
        for piece in pieces:
            if piece.kind == "text":
                if self._streams:
                    _write_stream(sys.stdout, piece.text)
            elif piece.kind == "reasoning":
                if self._streams:
                    _write_stream(sys.stderr, piece.text)
            elif piece.kind in ("tool", "note") and not self._manner.quiet:
                _write_stream(sys.stderr, piece.text + "\n")
            elif piece.kind == "error" and self._error is None and not self._manner.quiet:
                _write_stream(sys.stderr, f"✗ {piece.text}\n")

    def finish(self) -> int:
        if self._manner.as_json:
            print_json(self._summary())
        elif self._error is not None:
            raise self._error  # the front door says it and knows the exit code
        elif not self._streams and self._answer:
            _write_stream(sys.stdout, clean(self._answer).rstrip("\n") + "\n")
        elif not self._answer and self._outcome == "answered":
            note("there was nothing to carry on; ask with -q TEXT")
        if self._error is not None:
            return exit_codes.exit_code_for(self._error)
        return EXIT_CODE_BY_OUTCOME.get(self._outcome, exit_codes.FAILED)

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


async def _handle_interrupts(conversation: Conversation, everything: anyio.CancelScope) -> None:
    """Ctrl-C lets the turn write down that it was interrupted; a second one does not wait."""
    with anyio.open_signal_receiver(signal.SIGINT) as signals:
        async for _ in signals:
            if not conversation.running:
                everything.cancel()
            conversation.interrupt()
            async for _ in signals:
                everything.cancel()


def _write_stream(stream: Any, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:  # a terminal that knows few letters shows ? for the others
        stream.write(text.encode(stream.encoding, "replace").decode(stream.encoding))
    stream.flush()
