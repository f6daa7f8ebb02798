"""A whole conversation on Telegram: the real client library, a stand-in of the Bot API."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
import pytest
from chat_setup import runs, says

from hermes.app.channels.gateway import keep_gateway
from hermes.settings.load import LoadedSettings, load
from hermes.testing.chat_platform import ShownMessage
from standins.speech import make_wav
from standins.telegram import DIRECT_ID, PERSON, TOKEN, TelegramStandin

pytestmark = pytest.mark.anyio

PEOPLE = f"""\
people:
  alice: {{telegram: {PERSON["id"]}}}
"""


def telegram_settings(tmp_path: Path, url: str, more: Mapping[str, str] = {}) -> LoadedSettings:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (home / "config.yaml").write_text(PEOPLE)
    script = tmp_path / "script.jsonl"
    replies = [says("All is **well**."), runs("$UNKNOWN true; echo ran > result"), says("Done.")]
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return load(
        home=home,
        variables={"PATH": os.environ["PATH"], "TELEGRAM_BOT_TOKEN": TOKEN},
        overrides={
            "model.default": f"scripted:{script}",
            "memory.learn_with_model": "false",
            "channels.talk.cwd": str(work),
            "channels.telegram.base_url": url,
            **more,
        },
    )


async def shown(platform: TelegramStandin, wanted: Callable[[ShownMessage], bool]) -> ShownMessage:
    with anyio.fail_after(60):
        while True:
            for message in platform.shown():
                if wanted(message):
                    return message
            await anyio.sleep(0.05)


async def test_a_message_gets_typing_and_an_answer_and_a_press_approves(tmp_path: Path) -> None:
    platform, reports = TelegramStandin(), list[str]()
    async with platform.serving(), anyio.create_task_group() as group:
        loaded = telegram_settings(tmp_path, platform.url)
        group.start_soon(keep_gateway, loaded, "", reports.append)
        await platform.receiving()
        await platform.write("how are you?")
        answer = await shown(platform, lambda each: each.text == "All is well.")
        assert answer.chat == str(DIRECT_ID)
        assert platform.typing
        await platform.write("do it")
        question = await shown(platform, lambda each: bool(each.buttons))
        assert "echo ran > result" in question.text
        data = next(data for row in question.buttons for _, data in row if data.startswith("once:"))
        await platform.press(question.reference, data)
        await shown(platform, lambda each: each.text == "Done.")
        assert (tmp_path / "work" / "result").exists()
        settled = await shown(platform, lambda each: "APPROVED" in each.text)
        assert settled.reference == question.reference
        group.cancel_scope.cancel()
    assert reports == ["listening: telegram"]
    assert platform.problems == []


async def test_a_second_gateway_of_the_same_home_leaves_the_channel_to_the_first(
    tmp_path: Path,
) -> None:
    platform, reports = TelegramStandin(), list[str]()
    async with platform.serving(), anyio.create_task_group() as group:
        loaded = telegram_settings(tmp_path, platform.url)
        group.start_soon(keep_gateway, loaded, "", lambda text: None)
        await platform.receiving()
        with anyio.fail_after(60):
            await keep_gateway(loaded, "", reports.append)
        group.cancel_scope.cancel()
    assert len(reports) == 1
    assert reports[0].startswith("telegram is not received here: channel-telegram is open in")
    assert f"another process ({os.getpid()})" in reports[0]


async def test_without_a_configured_channel_the_gateway_says_so_and_ends(tmp_path: Path) -> None:
    reports: list[str] = []
    loaded = load(home=tmp_path / "home", variables={})
    await keep_gateway(loaded, "", reports.append)
    assert len(reports) == 1
    assert "no chat channel is configured" in reports[0]


async def test_a_voice_message_is_downloaded_shown_as_text_and_answered(tmp_path: Path) -> None:
    platform, reports = TelegramStandin(), list[str]()
    platform.uploads["v1"] = make_wav(1, 8000)
    voice = {"file_id": "v1", "file_unique_id": "v", "duration": 1, "file_size": 100}
    async with platform.serving(), anyio.create_task_group() as group:
        engine = f"{sys.executable} -c 'print(\"how are you\")' {{audio}}"
        loaded = telegram_settings(tmp_path, platform.url, {"speech.command": engine})
        group.start_soon(keep_gateway, loaded, "", reports.append)
        await platform.receiving()
        platform.deliver(voice=voice)
        heard = await shown(platform, lambda each: "I heard" in each.text)
        assert heard.text == "🎙 I heard: how are you"
        await shown(platform, lambda each: each.text == "All is well.")
        (kept,) = (tmp_path / "home" / "audio_cache").iterdir()
        assert kept.read_bytes() == platform.uploads["v1"]
        platform.deliver(text="do it")
        question = await shown(platform, lambda each: bool(each.buttons))
        platform.deliver(voice=voice, reply_to_message=platform.messages[int(question.reference)])
        await shown_twice(platform, "🎙 I heard: how are you")
        assert not (tmp_path / "work" / "result").exists(), "a voice message approves nothing"
        group.cancel_scope.cancel()


async def shown_twice(platform: TelegramStandin, text: str) -> None:
    with anyio.fail_after(60):
        while True:
            if [each.text for each in platform.shown()].count(text) == 2:
                return
            await anyio.sleep(0.05)
