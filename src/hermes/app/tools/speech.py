"""Speech as configured: which engine is used, how its programs run, where recordings are kept."""

import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from hermes.core.errors import EnvironmentFailed, SettingsError, ToolError
from hermes.core.foreign_text import clean_text, visible_line
from hermes.core.plugins import BUILT_IN, call_plugin, load_plugin
from hermes.core.speech import (
    ProgramResult,
    SendsAudio,
    SpeechOpening,
    SpokenText,
    SynthesizesSpeech,
    TranscribesSpeech,
)
from hermes.environments.processes.piped_process import open_piped
from hermes.gateway.media import MEDIA_FOLDERS, MediaCache
from hermes.integrations.speech.audio import (
    FFMPEG,
    RecordingFormat,
    decoding_command,
    encoding_command,
    is_plain_wav,
    read_wav,
    recognize_format,
    recording_problem,
)
from hermes.integrations.speech.engines import check_program, split_command
from hermes.settings.load import LoadedSettings

MAX_OUTPUT_BYTES = 4 * 2**20
MAX_TRANSCRIPT_CHARS = 20_000
AUDIO_FOLDER = MEDIA_FOLDERS["audio"]
LOCAL_SPEAKERS = ("flite", "espeak-ng")
NO_TRANSCRIBER_TEXT = (
    "nothing here turns speech into text; to change that: hermes config set OPENAI_API_KEY <key>, "
    "or hermes config set speech.command 'whisper-cli -m <model> -nt -np -f {audio}'"
)
NO_FFMPEG_TEXT = "ffmpeg is missing, which turns a recording into what {engine} takes: install it"


def transcriber_name(loaded: LoadedSettings) -> str:
    """Return which engine turns speech into text; empty: none is configured."""
    speech = loaded.settings.speech
    if speech.provider:
        return speech.provider
    if speech.command:
        return "command"
    if speech.url or loaded.secrets.get(speech.key_variable):
        return "openai"
    return "pocketsphinx" if speech.grammar else ""


def speaker_name(loaded: LoadedSettings) -> str:
    """Return which engine reads text aloud; empty: none is there."""
    speech = loaded.settings.speech
    if speech.speaker:
        return speech.speaker
    if speech.url or loaded.secrets.get(speech.key_variable):
        return "openai"
    return next((each for each in LOCAL_SPEAKERS if _program(loaded, each)), "")


def _program(loaded: LoadedSettings, name: str) -> str | None:
    return shutil.which(name, path=loaded.secrets.get("PATH"))


def _is_silent(wav: Path) -> bool:
    """Return False for one that cannot be read: not every engine makes plain WAV files."""
    with suppress(ToolError):
        return read_wav(wav).silent
    return False


class ApplicationSpeech:
    """Implements `core.speech.SpeechService`. Engines are opened by their first use."""

    def __init__(self, loaded: LoadedSettings) -> None:
        self._loaded = loaded
        self._settings = loaded.settings.speech
        talk = loaded.settings.channels.talk
        self._cache = MediaCache(
            loaded.home, max_bytes=talk.media_cache_bytes, max_age_days=talk.media_days
        )
        self._engines: dict[str, Any] = {}

    @property
    def folder(self) -> Path:
        return self._loaded.home / AUDIO_FOLDER

    @property
    def transcriber_url(self) -> str:
        return self._url_of(transcriber_name(self._loaded))

    @property
    def speaker_url(self) -> str:
        return self._url_of(speaker_name(self._loaded))

    @property
    def transcribes(self) -> bool:
        return bool(transcriber_name(self._loaded))

    def find_recording(self, path: str) -> Path | None:
        found = Path(path)
        if found.parent != self.folder or found.is_symlink() or not found.is_file():
            return None
        return found

    async def transcribe(self, data: bytes) -> SpokenText:
        name = transcriber_name(self._loaded)
        if not name:
            raise ToolError(NO_TRANSCRIBER_TEXT)
        engine = self._engine(name)
        if not isinstance(engine, TranscribesSpeech):
            raise ToolError(f"speech.provider: {name} does not turn speech into text")
        found = recognize_format(data)
        with tempfile.TemporaryDirectory(prefix="hermes-speech-") as folder:
            source = Path(folder) / f"recording{found.suffix}"
            await to_thread.run_sync(source.write_bytes, data)
            as_it_is = found.name in engine.accepts
            wav, seconds = source, 0.0
            if not as_it_is or _program(self._loaded, FFMPEG) is not None:
                wav = await self._decode(source, found, engine.name)
                seconds = await self._check_recording(wav)
            text = await engine.transcribe(source if as_it_is else wav)
        text = clean_text(text, MAX_TRANSCRIPT_CHARS).strip()
        return SpokenText(text=text, engine=engine.name, seconds=seconds)

    async def _decode(self, source: Path, found: RecordingFormat, engine: str) -> Path:
        """The recording as every engine takes it. Raises `ToolError` for a broken one."""
        if await to_thread.run_sync(is_plain_wav, source):
            return source
        if _program(self._loaded, FFMPEG) is None:
            raise ToolError(NO_FFMPEG_TEXT.format(engine=engine))
        target = source.with_name("decoded.wav")
        limit = self._settings.max_seconds + 1
        result = await self._run_program(decoding_command(source, found, target, limit))
        if result.exit_code != 0 or not target.exists():
            words = visible_line(result.errors.strip(), 200)
            raise ToolError(f"the recording is broken, or has no sound: {words}")
        return target

    async def _check_recording(self, wav: Path) -> float:
        """Return the length of a recording. Raises `ToolError` for one that is empty, silent or too
        long."""
        found = await to_thread.run_sync(read_wav, wav)
        if problem := recording_problem(found, self._settings.max_seconds):
            raise ToolError(problem)
        return found.seconds

    async def speak(self, text: str, voice: str = "") -> Path:
        name = speaker_name(self._loaded)
        if not name:
            raise ToolError("nothing here reads text aloud: apt install flite ffmpeg")
        engine = self._engine(name)
        if not isinstance(engine, SynthesizesSpeech):
            raise ToolError(f"speech.speaker: {name} does not read text aloud")
        with tempfile.TemporaryDirectory(prefix="hermes-speech-") as folder:
            wav, ogg = Path(folder) / "speech.wav", Path(folder) / "speech.ogg"
            await engine.speak(text, voice, wav)
            if not wav.exists() or not wav.stat().st_size:
                raise ToolError(f"{name} made no recording")
            if await to_thread.run_sync(_is_silent, wav):
                raise ToolError(f"{name} made a silent recording: it cannot read this text")
            made = wav
            if _program(self._loaded, FFMPEG) is not None:
                result = await self._run_program(encoding_command(wav, ogg))
                check_program(FFMPEG, result)
                made = ogg
            data = await to_thread.run_sync(made.read_bytes)
            return await to_thread.run_sync(self._cache.save_speech, data, made.suffix, time.time())

    def _url_of(self, name: str) -> str:
        with suppress(SettingsError):  # its use says what is wrong
            engine = self._engine(name) if name else None
            return engine.url if isinstance(engine, SendsAudio) else ""
        return ""

    def _engine(self, name: str) -> Any:
        engine = self._engines.get(name)
        if engine is None:
            opened = load_plugin("speech", name, self._loaded.home)
            engine = self._engines[name] = (
                opened(self._opening())
                if name in BUILT_IN["speech"]
                else call_plugin(name, opened, self._opening())
            )
        return engine

    def _opening(self) -> SpeechOpening:
        speech = self._settings
        return SpeechOpening(
            run_program=self._run_program,
            url=speech.url,
            key=self._loaded.secrets.get(speech.key_variable, ""),
            model=speech.model,
            speech_model=speech.speech_model,
            voice=speech.voice,
            language=speech.language,
            command=split_command(speech.command),
            grammar=speech.grammar,
            timeout_s=speech.timeout,
            secrets=self._loaded.secrets,
        )

    async def _run_program(self, argv: Sequence[str]) -> ProgramResult:
        """Run a program of the operator with PATH, HOME and LANG only: it sees none of our keys."""
        secrets = self._loaded.secrets
        variables = {name: secrets[name] for name in ("PATH", "HOME", "LANG") if secrets.get(name)}
        variables.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
        program = shutil.which(argv[0], path=variables["PATH"])
        if program is None:
            raise ToolError(f"the program {argv[0]} is not there; install it, or change speech")
        limit_s = self._settings.timeout
        output = bytearray()
        try:
            with anyio.fail_after(limit_s):
                async with open_piped(
                    [program, *argv[1:]],
                    variables=variables,
                    cwd=tempfile.gettempdir(),
                    grace_s=0.2,
                ) as process:
                    while part := await process.receive():
                        output += part[: MAX_OUTPUT_BYTES - len(output)]
                    code = await process.wait()
                    errors = process.last_errors()
        except TimeoutError as error:
            raise ToolError(f"{Path(argv[0]).name} took longer than {limit_s:g} s") from error
        except EnvironmentFailed as error:
            raise ToolError(f"{Path(argv[0]).name}: {error}") from error
        return ProgramResult(exit_code=code, output=bytes(output), errors=errors)
