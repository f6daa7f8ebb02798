"""The engine pocketsphinx: recognizes the sentences of a closed grammar, in English, offline.

Its model is too weak for free speech. Within a grammar it is dependable; it also finds a sentence
of the grammar in speech that contains none, so a person must see what it heard.
"""

import wave
from pathlib import Path
from typing import Any

from anyio import to_thread

from hermes.core.errors import SettingsError, ToolError
from hermes.core.speech import SpeechOpening

INSTALL_HINT = 'pocketsphinx is not installed: pip install "hermes-oncall[speech]"'


class GrammarTranscriber:
    name = "pocketsphinx"
    accepts = frozenset[str]()

    def __init__(self, grammar: Path) -> None:
        self._grammar = grammar
        self._decoder: Any = None
        """Loaded with the first recording."""

    async def transcribe(self, audio: Path) -> str:
        return await to_thread.run_sync(self._transcribe, audio)

    def _transcribe(self, audio: Path) -> str:
        if self._decoder is None:
            self._decoder = _open_decoder(self._grammar)
        try:
            with wave.open(str(audio), "rb") as file:
                samples = file.readframes(file.getnframes())
        except (OSError, EOFError, wave.Error) as error:
            raise ToolError(f"the recording cannot be read: {error}") from error
        self._decoder.start_utt()
        self._decoder.process_raw(samples, full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        return str(found.hypstr) if found is not None else ""


def _open_decoder(grammar: Path) -> Any:
    try:
        from pocketsphinx import Decoder  # noqa: PLC0415 - an extra, and only for recordings
    except ImportError as error:
        raise ToolError(f"{INSTALL_HINT} ({error})") from error
    try:
        return Decoder(jsgf=str(grammar), loglevel="FATAL")
    except (RuntimeError, ValueError) as error:
        raise ToolError(
            f"speech.grammar: {grammar} is no grammar in JSGF form with known words: {error}"
        ) from error


def open_pocketsphinx(opening: SpeechOpening) -> GrammarTranscriber:
    """Raises `SettingsError` without a grammar."""
    grammar = Path(opening.grammar).expanduser()
    if not opening.grammar or not grammar.is_file():
        raise SettingsError(
            "pocketsphinx recognizes the sentences of a closed grammar: write them into a file and "
            "name it: hermes config set speech.grammar <file>"
        )
    return GrammarTranscriber(grammar)
