"""Recordings become text and text becomes speech: by real programs, and by a strict stand-in."""

import os
import stat
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from hermes.app.tools.speech import ApplicationSpeech, speaker_name, transcriber_name
from hermes.core.errors import HermesError, ToolError
from hermes.settings.load import LoadedSettings, load
from standins.speech import KEY, TEXT, SpeechStandin, make_wav

pytestmark = pytest.mark.anyio

SENTENCES = (
    "restart the web server",
    "show the open incidents",
    "acknowledge the incident",
    "mute the disk alert for one hour",
    "what is the load of the database",
    "how full is the disk",
    "stop the running job",
    "who is on call tonight",
    "roll back the last release",
    "open the status report",
)
ECHO_COMMAND = f"{sys.executable} -c 'import sys; print(sys.argv[1][-4:])' {{audio}}"


def settings(tmp_path: Path, *, path: str = "", key: str = "", **more: object) -> LoadedSettings:
    overrides = {f"speech.{name}": str(value) for name, value in more.items()}
    variables = {"PATH": path or os.environ["PATH"], **({"OPENAI_API_KEY": key} if key else {})}
    return load(home=tmp_path / "home", variables=variables, overrides=overrides)


def grammar(tmp_path: Path) -> Path:
    file = tmp_path / "sentences.jsgf"
    file.write_text(f"#JSGF V1.0;\ngrammar closed;\npublic <all> = {' | '.join(SENTENCES)};\n")
    return file


def programs(tmp_path: Path, *names: str) -> str:
    """A PATH with these programs only."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in names:
        found = next(
            Path(each) / name
            for each in os.environ["PATH"].split(":")
            if (Path(each) / name).exists()
        )
        (folder / name).symlink_to(found)
    return str(folder)


async def ffmpeg(*arguments: str) -> None:
    await anyio.run_process(["ffmpeg", "-nostdin", "-loglevel", "error", "-y", *arguments])


async def test_ten_closed_sentences_spoken_by_flite_are_understood(tmp_path: Path) -> None:
    speech = ApplicationSpeech(settings(tmp_path, grammar=grammar(tmp_path), speaker="flite"))
    heard = []
    for sentence in SENTENCES:
        spoken = await speech.speak(sentence)
        assert spoken.read_bytes().startswith(b"OggS")
        heard.append((await speech.transcribe(spoken.read_bytes())).text)
    assert heard == list(SENTENCES)


@pytest.mark.parametrize(("voice", "name"), [("flite", "slt"), ("espeak-ng", "de")])
async def test_a_program_of_the_host_reads_aloud_whatever_the_text_looks_like(
    tmp_path: Path, voice: str, name: str
) -> None:
    speech = ApplicationSpeech(settings(tmp_path, speaker=voice))
    made = await speech.speak("-rf /etc/passwd; $(touch /tmp/x)\n", name)
    assert made.parent == tmp_path / "home" / "audio_cache"
    assert made.read_bytes().startswith(b"OggS")
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    with pytest.raises(ToolError, match="no name of a voice"):
        await speech.speak("hello", "/tmp/evil.flitevox")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("サーバーを再起動しました", "flite speaks only English"),
        ("the host db-1 is full. Диск", "flite speaks only English"),
        ("\N{CHECK MARK} \N{FIRE}", "made a silent recording"),
    ],
)
async def test_text_that_flite_cannot_read_is_no_recording(
    tmp_path: Path, text: str, reason: str
) -> None:
    speech = ApplicationSpeech(settings(tmp_path, speaker="flite"))
    with pytest.raises(ToolError, match=reason):
        await speech.speak(text)
    assert not list((tmp_path / "home" / "audio_cache").glob("*"))


def test_which_engine_is_used(tmp_path: Path) -> None:
    nothing = settings(tmp_path, path="/nonexistent")
    assert (transcriber_name(nothing), speaker_name(nothing)) == ("", "")
    both = settings(tmp_path, key=KEY)
    assert (transcriber_name(both), speaker_name(both)) == ("openai", "openai")
    assert transcriber_name(settings(tmp_path, key=KEY, command="x {audio}")) == "command"
    assert transcriber_name(settings(tmp_path, grammar="x")) == "pocketsphinx"
    assert speaker_name(settings(tmp_path)) == "flite"


async def test_the_api_gets_the_recording_as_it_is(tmp_path: Path) -> None:
    standin = SpeechStandin()
    async with standin.serving():
        speech = ApplicationSpeech(settings(tmp_path, key=KEY, url=f"{standin.url}/v1"))
        await ffmpeg("-f", "lavfi", "-i", "sine=d=1", "-c:a", "libopus", str(tmp_path / "a.ogg"))
        found = await speech.transcribe((tmp_path / "a.ogg").read_bytes())
        made = await speech.speak("the disk is full")
    assert (found.text, found.engine, round(found.seconds)) == (TEXT, "openai", 1)
    assert (standin.names, standin.spoken) == (["recording.ogg"], ["the disk is full"])
    assert made.read_bytes().startswith(b"OggS")
    assert not standin.problems


@pytest.mark.parametrize(
    ("status", "key", "words"),
    [
        (200, "wrong", "is the key right"),
        (404, KEY, "is speech.url its address"),
        (413, KEY, "too large"),
        (429, KEY, "too many requests"),
        (500, KEY, "answers 500"),
    ],
)
async def test_a_refusal_of_the_api_is_said_in_plain_words(
    tmp_path: Path, status: int, key: str, words: str
) -> None:
    standin = SpeechStandin()
    standin.status = status
    async with standin.serving():
        speech = ApplicationSpeech(settings(tmp_path, key=key, url=f"{standin.url}/v1"))
        with pytest.raises(ToolError, match=words) as raised:
            await speech.transcribe(make_wav(1, 8000))
    assert key not in str(raised.value)


async def test_a_command_gets_a_wav_file_and_none_of_our_keys(tmp_path: Path) -> None:
    program = tmp_path / "engine.py"
    program.write_text(
        "import os, sys, wave\n"
        "sound = wave.open(sys.argv[1])\n"
        "print(sound.getframerate(), sound.getnchannels(), 'OPENAI_API_KEY' in os.environ)\n"
    )
    await ffmpeg("-f", "lavfi", "-i", "sine=d=1", str(tmp_path / "a.mp3"))
    command = f"{sys.executable} {program} {{audio}}"
    speech = ApplicationSpeech(settings(tmp_path, key=KEY, command=command))
    found = await speech.transcribe((tmp_path / "a.mp3").read_bytes())
    assert found.text == "16000 1 False"


async def test_a_command_may_write_its_text_into_a_file(tmp_path: Path) -> None:
    code = "import sys; open(sys.argv[2], 'w').write('spoken; rm -rf $HOME')"
    command = f'{sys.executable} -c "{code}" {{audio}} {{text}}'
    speech = ApplicationSpeech(settings(tmp_path, command=command))
    assert (await speech.transcribe(make_wav(1, 8000))).text == "spoken; rm -rf $HOME"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"command": "whisper-cli -m model"}, "write {audio} where"),
        ({"command": "no-such-program {audio}"}, "is not there; install it"),
        ({"command": "sh -c 'exit 3' {audio}"}, "sh ended with 3"),
        ({"command": "sleep 60 {audio}", "timeout": 0.3}, "took longer than 0.3 s|ended with 1"),
        ({"command": "'unfinished {audio}"}, "No closing quotation"),
        ({"provider": "wisper"}, "no speech named 'wisper'"),
        ({"provider": "flite"}, "does not turn speech into text"),
        ({"grammar": "/nonexistent"}, "closed grammar"),
        ({}, "nothing here turns speech into text"),
    ],
)
async def test_what_is_wrong_with_the_settings_is_said(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(HermesError, match=words):
        await ApplicationSpeech(settings(tmp_path, **given)).transcribe(make_wav(1, 8000))


async def bad_recordings(folder: Path) -> dict[str, tuple[bytes, str]]:
    """By name: the bytes, and what is said about them."""
    made = {name: folder / name for name in ("long.ogg", "video.mp4", "whole.ogg", "mute.mp4")}
    silence = ("-f", "lavfi", "-i", "anullsrc=r=8000:cl=mono")
    picture = ("-f", "lavfi", "-i", "color=s=16x16:d=1")
    await ffmpeg(*silence, "-t", "30", "-c:a", "libopus", "-b:a", "6k", str(made["long.ogg"]))
    await ffmpeg(*picture, str(made["mute.mp4"]))
    await ffmpeg("-f", "lavfi", "-i", "sine=d=2", "-c:a", "libopus", str(made["whole.ogg"]))
    whole = made["whole.ogg"].read_bytes()
    playlist = b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n"
    return {
        "nothing": (b"", "has no bytes"),
        "0 seconds": (make_wav(0, 0), "lasts 0 seconds"),
        "silence": (make_wav(2, 0), "is silent"),
        "too long, in a small file": (made["long.ogg"].read_bytes(), "longer than 20 s"),
        "a video without sound": (made["mute.mp4"].read_bytes(), "has no sound"),
        "only the beginning": (whole[:60], "broken|0 seconds"),
        "zeros after the first bytes": (whole[:4] + bytes(5000), "broken|0 seconds"),
        "a playlist": (playlist, "it is no recording"),
        "a playlist behind the first bytes": (b"OggS" + playlist, "broken"),
        "a program": (b"\x7fELF" + bytes(900), "it is no recording"),
        "text": (b"-rf\n", "it is no recording"),
        "a cut WAV file": (make_wav(1, 8000)[:30], "broken|cannot be read|0 seconds"),
    }


async def test_each_bad_recording_ends_in_a_clear_word(tmp_path: Path) -> None:
    speech = ApplicationSpeech(settings(tmp_path, command=ECHO_COMMAND, max_seconds=20))
    for name, (data, words) in (await bad_recordings(tmp_path)).items():
        with pytest.raises(ToolError, match=words):
            await speech.transcribe(data)
            pytest.fail(f"{name} was taken")


async def test_the_sound_of_a_video_is_transcribed(tmp_path: Path) -> None:
    sources = ("-f", "lavfi", "-i", "color=s=16x16:d=1", "-f", "lavfi", "-i", "sine=d=1")
    await ffmpeg(*sources, str(tmp_path / "video.mp4"))
    speech = ApplicationSpeech(settings(tmp_path, command=ECHO_COMMAND))
    found = await speech.transcribe((tmp_path / "video.mp4").read_bytes())
    assert found.text == ".wav"


async def test_without_ffmpeg_it_says_what_is_missing(tmp_path: Path) -> None:
    await ffmpeg("-f", "lavfi", "-i", "sine=d=1", "-c:a", "libopus", str(tmp_path / "a.ogg"))
    path = programs(tmp_path, "flite", "sh")
    speech = ApplicationSpeech(settings(tmp_path, path=path, command="flite {audio}"))
    with pytest.raises(ToolError, match="ffmpeg is missing"):
        await speech.transcribe((tmp_path / "a.ogg").read_bytes())
    assert (await speech.speak("hello")).suffix == ".wav"


async def test_an_engine_of_a_plugin_is_used(tmp_path: Path) -> None:
    loaded = settings(tmp_path, provider="parrot")
    folder = loaded.home / "plugins"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "parrot.py").write_text(
        "class Parrot:\n"
        "    name, accepts = 'parrot', frozenset()\n"
        "    async def transcribe(self, audio):\n"
        "        return f'polly heard {audio.stat().st_size > 1000}'\n"
        "ENTRY_POINTS = {'hermes.speech': {'parrot': lambda opening: Parrot()}}\n"
    )
    found = await ApplicationSpeech(loaded).transcribe(make_wav(1, 8000))
    assert (found.text, found.engine) == ("polly heard True", "parrot")
