"""Asks one question: prints the answer to stdout and the progress to stderr."""

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
    as_json: bool = False
    quiet: bool = False
    stream: bool = False
    """Print text as it arrives, including text between tool calls."""
    unattended: bool = False
    """After a crash the run is resumed automatically."""
    reasoning: bool = False
    progress: ProgressMode = "all"


async def answer_once(
    loaded: LoadedSettings,
    question: str,
    run: str | None,
    output_options: OneShotOptions,
    options: dict[str, Any],
) -> int:
    """`run` is the conversation to continue, empty for the latest; None starts a new one."""
    from hermes.app import open_application

    display = loaded.settings.display
    output_options = msgspec.structs.replace(
        output_options, reasoning=display.reasoning, progress=progress_mode(display)
    )
    async with open_application(loaded, origin="cli", **options) as application:
        if run is None:
            conversation = await application.begin(question, unattended=output_options.unattended)
        else:
            from hermes.cli.context import run_to_resume

            conversation = await application.resume(await run_to_resume(application.journal, run))
        if options.get("model"):  # recorded, so that a resumed run uses the same model
            await conversation.switch(application.open_model(options["model"]))
        for warning in application.warnings:
            note(warning)
        try:
            return await ask_once(conversation, application.bus, question, output_options)
        finally:
            with anyio.CancelScope(shield=True):
                ended = await application.end_processes(conversation.run)
            if ended and not output_options.quiet:
                shown = ", ".join(clean(command)[:60] for command in ended)
                note(f"background processes end with the answer: {shown}")


async def ask_once(
    conversation: Conversation, bus: Bus, question: str, output_options: OneShotOptions
) -> int:
    """Return the exit code. Without a question, continue the interrupted turn."""
    once = _OneShotOutput(conversation, output_options)
    follower = TranscriptFollower(bus, once.transcript, once.print_fragments)
    async with anyio.create_task_group() as group:
        await group.start(follower.run)
        group.start_soon(_handle_interrupts, conversation, group.cancel_scope)
        await once.say(question)
        await follower.wait_until_shown()
        group.cancel_scope.cancel()
    code = once.finish()
    if hint := once.transcript.refused.hint():
        note(hint)
    return code


FILE_COLUMNS = 400
"""The width of lines where the output is no terminal."""


class _OneShotOutput:
    def __init__(self, conversation: Conversation, output_options: OneShotOptions) -> None:
        self._conversation = conversation
        self._options = output_options
        self._answer = ""
        self._error: HermesError | None = None
        self._outcome = "interrupted"
        self.transcript = Transcript(
            conversation.run,
            block_mode=False,
            reasoning=output_options.reasoning,
            progress=output_options.progress,
            width=lambda: shutil.get_terminal_size((FILE_COLUMNS, 24)).columns,
        )
        self._streams = (
            output_options.stream and not output_options.quiet and not output_options.as_json
        )

    async def say(self, question: str) -> None:
        conversation, nothing = self._conversation, False
        try:
            if question:
                self._answer = await conversation.say(question)
            else:
                answer = await conversation.finish_open_turn()
                self._answer, nothing = answer or "", answer is None
        except HermesError as error:
            self._error = error
        ended = conversation.ended
        if self._error is not None:
            self._outcome = "failed"
        else:
            self._outcome = "answered" if nothing or ended is None else ended.outcome

    async def print_fragments(self, fragments: list[OutputFragment]) -> None:
        for fragment in fragments:
            if fragment.kind == "text":
                if self._streams:
                    _write_stream(sys.stdout, fragment.text)
            elif fragment.kind == "reasoning":
                if self._streams:
                    _write_stream(sys.stderr, fragment.text)
            elif fragment.kind in ("tool", "note") and not self._options.quiet:
                _write_stream(sys.stderr, fragment.text + "\n")
            elif fragment.kind == "error" and self._error is None and not self._options.quiet:
                _write_stream(sys.stderr, f"✗ {fragment.text}\n")

    def finish(self) -> int:
        if self._options.as_json:
            print_json(self._summary())
        elif self._error is not None:
            raise self._error  # `run_command` prints it and chooses the exit code
        elif not self._streams and self._answer:
            _write_stream(sys.stdout, clean(self._answer).rstrip("\n") + "\n")
        elif not self._answer and self._outcome == "answered":
            note("there was nothing to continue; ask with -q TEXT")
        if self._error is not None:
            return exit_codes.exit_code_for(self._error)
        return EXIT_CODE_BY_OUTCOME.get(self._outcome, exit_codes.FAILED)

    def _summary(self) -> dict[str, object]:
        usage = msgspec.structs.asdict(self._conversation.usage)
        usage["cost_usd"] = usage["cost_usd"] or None  # an unknown price is not a price of zero
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
    """Ctrl-C ends the turn and lets it record the interruption; a second one cancels at once."""
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
    except UnicodeEncodeError:  # characters outside the encoding become ?
        stream.write(text.encode(stream.encoding, "replace").decode(stream.encoding))
    stream.flush()
