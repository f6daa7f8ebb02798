"""Speech in both directions: what an engine is given, and the protocols that it implements.

An engine is a plug-in of the group `hermes.speech`: a function that takes a `SpeechOpening` and
returns an object with `transcribe`, with `speak`, or with both.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from hermes.core.messages import Value


class ProgramResult(Value, kw_only=True, frozen=True):
    """The exit code and the output of a program."""

    exit_code: int
    output: bytes = b""
    errors: str = ""


RunProgram = Callable[[Sequence[str]], Awaitable[ProgramResult]]
"""Runs a program of this host, without a shell and without input. Raises `ToolError` when it cannot
be started or takes too long."""


@dataclass(frozen=True, kw_only=True)
class SpeechOpening:
    """What an engine may know. Empty: not set."""

    run_program: RunProgram
    url: str = ""
    """Where an API that speaks the dialect of OpenAI begins."""
    key: str = field(default="", repr=False)
    model: str = ""
    speech_model: str = ""
    voice: str = ""
    language: str = ""
    command: tuple[str, ...] = ()
    """The words of the operator's own command, with `{audio}` in one of them."""
    grammar: str = ""
    """A file with a grammar in JSGF form."""
    timeout_s: float = 120.0
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@runtime_checkable
class TranscribesSpeech(Protocol):
    """An engine that turns a recording into text. Raises `ToolError`."""

    name: str
    accepts: frozenset[str]
    """Formats that it takes as they are, such as `ogg`; any engine takes `wav`, 16 kHz, mono."""

    async def transcribe(self, audio: Path) -> str: ...


@runtime_checkable
class SynthesizesSpeech(Protocol):
    """An engine that reads a text aloud. Raises `ToolError`."""

    name: str

    async def speak(self, text: str, voice: str, to: Path) -> None:
        """Writes a WAV file. An empty voice is the engine's own."""


@runtime_checkable
class SendsAudio(Protocol):
    """An engine on another host: the recording or the text leaves this one."""

    url: str


class SpokenText(Value, kw_only=True, frozen=True):
    """The text that an engine understood."""

    text: str
    engine: str
    seconds: float = 0.0
    """The length of the recording; 0: not known."""


class SpeechService(Protocol):
    """Recordings and the configured engines. Raises `ToolError` with what is missing."""

    @property
    def transcriber_url(self) -> str:
        """Where recordings are sent to; empty: nowhere."""

    @property
    def speaker_url(self) -> str:
        """Where texts are sent to; empty: nowhere."""

    async def transcribe(self, data: bytes) -> SpokenText: ...
    async def speak(self, text: str, voice: str = "") -> Path:
        """The file of the voice message, in the folder of recordings."""

    def find_recording(self, path: str) -> Path | None:
        """The kept recording at this path; None when it is another file."""
