"""Engines of speech: an API in the dialect of OpenAI, programs of this host, a command of one's
own."""

import json
import secrets
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path

from anyio import to_thread

from hermes.core.errors import SettingsError, ToolError
from hermes.core.foreign_text import visible_line
from hermes.core.speech import ProgramResult, RunProgram, SpeechOpening
from hermes.plumbing.addresses import guard_for
from hermes.plumbing.http_client import HttpAnswer, HttpError, HttpLimits, send_http_request

DEFAULT_URL = "https://api.openai.com/v1"
DEFAULT_MODEL, DEFAULT_SPEECH_MODEL, DEFAULT_VOICE = "whisper-1", "gpt-4o-mini-tts", "alloy"
FLITE, ESPEAK = "flite", "espeak-ng"
FLITE_VOICE = "slt"
MAX_ANSWER_BYTES = 64 * 2**20
AUDIO_PLACEHOLDER, TEXT_PLACEHOLDER, LANGUAGE_PLACEHOLDER = "{audio}", "{text}", "{language}"
_MAX_ERROR_CHARS = 300
_LAST_LATIN_LETTER = 0x24F
"""Letters with accents are read as if they had none."""
_MAX_TEXT_BYTES = 1_000_000


class OpenAiSpeech:
    """An API with `/audio/transcriptions` and `/audio/speech`."""

    name = "openai"
    accepts = frozenset({"ogg", "mp3", "mp4", "wav", "webm", "flac"})

    def __init__(self, opening: SpeechOpening) -> None:
        self._opening = opening
        self.url = (opening.url or DEFAULT_URL).rstrip("/")

    async def transcribe(self, audio: Path) -> str:
        fields = {"model": self._opening.model or DEFAULT_MODEL, "response_format": "json"}
        if self._opening.language:
            fields["language"] = self._opening.language
        data = await to_thread.run_sync(audio.read_bytes)
        body, content_type = encode_form(fields, f"recording{audio.suffix}", data)
        answer = await self._send("/audio/transcriptions", body, content_type)
        try:
            text = json.loads(answer.body)["text"]
        except (ValueError, KeyError, TypeError) as error:
            raise ToolError(f"{self.url} sent no text; is speech.url its address?") from error
        return str(text)

    async def speak(self, text: str, voice: str, to: Path) -> None:
        opening = self._opening
        body = json.dumps(
            {
                "model": opening.speech_model or DEFAULT_SPEECH_MODEL,
                "voice": voice or opening.voice or DEFAULT_VOICE,
                "input": text,
                "response_format": "wav",
            }
        ).encode()
        answer = await self._send("/audio/speech", body, "application/json")
        if not answer.body:
            raise ToolError(f"{self.url} sent no sound")
        await to_thread.run_sync(to.write_bytes, answer.body)

    async def _send(self, path: str, body: bytes, content_type: str) -> HttpAnswer:
        timeout_s = self._opening.timeout_s
        limits = HttpLimits(
            timeout_s=timeout_s, total_timeout_s=timeout_s, max_answer_bytes=MAX_ANSWER_BYTES
        )
        headers = {"Content-Type": content_type, "User-Agent": "hermes-sre"}
        if self._opening.key:
            headers["Authorization"] = f"Bearer {self._opening.key}"
        try:
            answer = await send_http_request(
                "POST",
                self.url + path,
                limits,
                headers=headers,
                body=body,
                guard=guard_for([self.url]),
            )
        except HttpError as error:
            raise ToolError(f"the speech API at {self.url}: {error}") from error
        if problem := _status_problem(answer):
            raise ToolError(f"the speech API at {self.url} {problem}")
        return answer


class CommandTranscriber:
    """The operator's own command. Its words are fixed in the settings; no shell reads them."""

    name = "command"
    accepts = frozenset[str]()

    def __init__(self, opening: SpeechOpening) -> None:
        self._words, self._language = opening.command, opening.language
        self._run = opening.run_program

    async def transcribe(self, audio: Path) -> str:
        with tempfile.TemporaryDirectory(prefix="hermes-speech-") as folder:
            written = Path(folder) / "text.txt"
            values = {
                AUDIO_PLACEHOLDER: str(audio),
                TEXT_PLACEHOLDER: str(written),
                LANGUAGE_PLACEHOLDER: self._language or "auto",
            }
            argv = [_fill_word(word, values) for word in self._words]
            result = await self._run(argv)
            check_program(argv[0], result)
            if not any(TEXT_PLACEHOLDER in word for word in self._words):
                return result.output.decode("utf-8", "replace")
            return await to_thread.run_sync(_read_text, written)


class FliteVoice:
    """The program flite: English, no network."""

    name = FLITE

    def __init__(self, opening: SpeechOpening) -> None:
        self._run, self._voice = opening.run_program, opening.voice

    async def speak(self, text: str, voice: str, to: Path) -> None:
        if unknown := next((each for each in text if _is_foreign_letter(each)), ""):
            raise ToolError(
                f"flite speaks only English and cannot read {unknown!r}; espeak-ng knows a hundred "
                "languages: hermes config set speech.speaker espeak-ng, and set speech.language"
            )
        chosen = _voice_name(voice or self._voice or FLITE_VOICE)
        await _run_on_words(self._run, [FLITE, "-voice", chosen, "-o", str(to), "-f"], text)


class EspeakVoice:
    """The program espeak-ng: a hundred languages, no network."""

    name = ESPEAK

    def __init__(self, opening: SpeechOpening) -> None:
        self._run, self._voice = opening.run_program, opening.voice or opening.language

    async def speak(self, text: str, voice: str, to: Path) -> None:
        chosen = voice or self._voice
        named = ["-v", _voice_name(chosen)] if chosen else []
        await _run_on_words(self._run, [ESPEAK, *named, "-b", "1", "-w", str(to), "-f"], text)


def open_openai(opening: SpeechOpening) -> OpenAiSpeech:
    return OpenAiSpeech(opening)


def open_command(opening: SpeechOpening) -> CommandTranscriber:
    """Raises `SettingsError` for a command that never sees the recording."""
    if not any(AUDIO_PLACEHOLDER in word for word in opening.command):
        raise SettingsError(
            "speech.command: write {audio} where the recording goes, such as: "
            "whisper-cli -m /models/ggml-base.bin -nt -np -f {audio}"
        )
    return CommandTranscriber(opening)


def open_flite(opening: SpeechOpening) -> FliteVoice:
    return FliteVoice(opening)


def open_espeak(opening: SpeechOpening) -> EspeakVoice:
    return EspeakVoice(opening)


def split_command(text: str) -> tuple[str, ...]:
    """The words of `speech.command`. Raises `SettingsError`."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise SettingsError(f"speech.command: {error}: {text!r}") from error


def encode_form(fields: Mapping[str, str], file_name: str, data: bytes) -> tuple[bytes, str]:
    """A form with one file as a request body, and its content type."""
    boundary = f"hermes-{secrets.token_hex(16)}"
    lines = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{file_name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    end = f"\r\n--{boundary}--\r\n".encode()
    return b"".join([*lines, head, data, end]), f"multipart/form-data; boundary={boundary}"


def check_program(name: str, result: ProgramResult) -> None:
    """Raises `ToolError` with the last words of a program that failed."""
    if result.exit_code != 0:
        words = visible_line(result.errors.strip()[-_MAX_ERROR_CHARS:], _MAX_ERROR_CHARS)
        raise ToolError(f"{Path(name).name} ended with {result.exit_code}: {words or 'no words'}")


async def _run_on_words(run: RunProgram, argv: list[str], text: str) -> None:
    """In a file: an argument could be read as an option, or as the name of a file."""
    with tempfile.TemporaryDirectory(prefix="hermes-speech-") as folder:
        words = Path(folder) / "words.txt"
        await to_thread.run_sync(words.write_text, text, "utf-8")
        check_program(argv[0], await run([*argv, str(words)]))


def _fill_word(word: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        word = word.replace(placeholder, value)
    return word


def _read_text(path: Path) -> str:
    """The file of `{text}`; some programs add the suffix themselves."""
    found = next((each for each in (path, Path(f"{path}.txt")) if each.is_file()), None)
    if found is None:
        raise ToolError("the command wrote no text file: {text} in speech.command names it")
    with found.open("rb") as file:
        return file.read(_MAX_TEXT_BYTES).decode("utf-8", "replace")


def _voice_name(text: str) -> str:
    """Not a path, an address or an option: flite loads voices from files."""
    if not all(each.isalnum() or each in "-_+" for each in text) or text.startswith("-"):
        raise ToolError(f"{visible_line(text, 40)!r} is no name of a voice")
    return text


def _is_foreign_letter(each: str) -> bool:
    return each.isalpha() and ord(each) > _LAST_LATIN_LETTER


def _status_problem(answer: HttpAnswer) -> str:
    if answer.status < 300:
        return ""
    words = visible_line(answer.body.decode("utf-8", "replace"), _MAX_ERROR_CHARS)
    match answer.status:
        case 401 | 403:
            return f"answers {answer.status}: is the key right? {words}"
        case 404:
            return "answers 404: it has no speech there; is speech.url its address?"
        case 413:
            return "answers 413: the recording is too large for it"
        case 429:
            wait = f"; it asks to wait for {answer.retry_after}" if answer.retry_after else ""
            return f"answers 429, too many requests or no credit{wait}"
        case _:
            return f"answers {answer.status}: {words or answer.reason}"
