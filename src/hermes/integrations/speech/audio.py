"""Recordings: their formats, how ffmpeg converts them, and what is wrong with one.

A format is recognized by the content. ffmpeg gets the name of the format, because a file that names
other files or addresses, such as a playlist, must not be opened as one.
"""

import wave
from array import array
from pathlib import Path

from hermes.core.errors import ToolError
from hermes.core.messages import Value

FFMPEG = "ffmpeg"
SAMPLE_RATE_HZ = 16_000
SILENCE_PEAK = 200
"""Of 32,768: a recording that is never louder contains no speech."""
MAX_DECODER_BYTES = 128 * 2**20
MIN_RECORDING_S = 0.1
_SAMPLE_BYTES = 2
_PEAK_STRIDE = 7
"""Every seventh sample is compared: enough to tell speech from silence."""
_READ_FRAMES = 65_536


class RecordingFormat(Value, frozen=True):
    name: str
    suffix: str
    demuxer: str
    """What ffmpeg calls it."""


_OGG = RecordingFormat("ogg", ".ogg", "ogg")
_WAV = RecordingFormat("wav", ".wav", "wav")
_MP3 = RecordingFormat("mp3", ".mp3", "mp3")
_AAC = RecordingFormat("aac", ".aac", "aac")
_FLAC = RecordingFormat("flac", ".flac", "flac")
_AMR = RecordingFormat("amr", ".amr", "amr")
_MP4 = RecordingFormat("mp4", ".m4a", "mov")
_WEBM = RecordingFormat("webm", ".webm", "matroska")
_AIFF = RecordingFormat("aiff", ".aiff", "aiff")
_BEGINNINGS = (
    (b"OggS", _OGG),
    (b"ID3", _MP3),
    (b"\xff\xf1", _AAC),
    (b"\xff\xf9", _AAC),
    (b"\xff\xfb", _MP3),
    (b"\xff\xf3", _MP3),
    (b"\xff\xf2", _MP3),
    (b"fLaC", _FLAC),
    (b"#!AMR", _AMR),
    (b"\x1a\x45\xdf\xa3", _WEBM),
)


class WavSummary(Value, frozen=True):
    seconds: float
    silent: bool


def recognize_format(data: bytes) -> RecordingFormat:
    """By content, never by name. Raises `ToolError` for what is no recording."""
    if not data:
        raise ToolError("the recording is empty: the file has no bytes")
    for beginning, found in _BEGINNINGS:
        if data.startswith(beginning):
            return found
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return _WAV
    if data[:4] == b"FORM" and data[8:12] in (b"AIFF", b"AIFC"):
        return _AIFF
    if data[4:8] == b"ftyp":
        return _MP4
    raise ToolError("it is no recording: ogg, opus, mp3, m4a, mp4, wav, webm, flac, amr are known")


def decoding_command(
    source: Path, source_format: RecordingFormat, target: Path, max_seconds: float
) -> list[str]:
    """Makes a WAV file that every engine takes, of at most `max_seconds`."""
    return [
        *_base_command(),
        *("-f", source_format.demuxer, "-i", f"file:{source}"),
        *("-map", "0:a:0", "-vn", "-sn", "-dn", "-t", f"{max_seconds:g}"),
        *("-ac", "1", "-ar", str(SAMPLE_RATE_HZ), "-c:a", "pcm_s16le"),
        *("-f", "wav", "-y", f"file:{target}"),
    ]


def encoding_command(source: Path, target: Path) -> list[str]:
    """Makes an Ogg file with Opus, which chats show as a voice message."""
    return [
        *_base_command(),
        *("-f", "wav", "-i", f"file:{source}"),
        *("-ac", "1", "-c:a", "libopus", "-b:a", "32k", "-f", "ogg", "-y", f"file:{target}"),
    ]


def _base_command() -> list[str]:
    return [
        *(FFMPEG, "-nostdin", "-hide_banner", "-loglevel", "error"),
        *("-max_alloc", str(MAX_DECODER_BYTES), "-protocol_whitelist", "file"),
    ]


def read_wav(path: Path) -> WavSummary:
    """Its length and whether it is silent. Raises `ToolError` for a WAV file that is unusable."""
    try:
        with wave.open(str(path), "rb") as file:
            rate, frames = file.getframerate(), file.getnframes()
            peak = _peak(file) if file.getsampwidth() == _SAMPLE_BYTES else SILENCE_PEAK
    except (OSError, EOFError, ValueError, wave.Error) as error:
        raise ToolError(f"the recording cannot be read: {error}") from error
    seconds = frames / rate if rate else 0.0
    return WavSummary(seconds, peak < SILENCE_PEAK)


def is_plain_wav(path: Path) -> bool:
    """Return whether every engine takes it without ffmpeg."""
    try:
        with wave.open(str(path), "rb") as file:
            found = (file.getnchannels(), file.getframerate(), file.getsampwidth())
    except (OSError, EOFError, ValueError, wave.Error):
        return False
    return found == (1, SAMPLE_RATE_HZ, _SAMPLE_BYTES)


def recording_problem(found: WavSummary, max_seconds: float) -> str:
    """Return why it is not transcribed; empty when it is."""
    if found.seconds < MIN_RECORDING_S:
        return "the recording is empty: it lasts 0 seconds"
    if found.seconds > max_seconds:
        return (
            f"the recording is longer than {max_seconds:g} s; send a shorter one, or raise the "
            "limit: hermes config set speech.max_seconds <seconds>"
        )
    return "the recording is silent: nothing can be heard in it" if found.silent else ""


def _peak(file: wave.Wave_read) -> int:
    highest = 0
    while data := file.readframes(_READ_FRAMES):
        samples = array("h", data[: len(data) // _SAMPLE_BYTES * _SAMPLE_BYTES])[::_PEAK_STRIDE]
        if len(samples):
            highest = max(highest, max(samples), -min(samples))
        if highest >= SILENCE_PEAK:
            break
    return highest
