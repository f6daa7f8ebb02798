"""`hermes setup` leads through one chat: token, home chat, a test message, a test approval."""

import json
import os
import pwd
import stat
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio
import pytest
from hermes_command import Hermes
from test_setup_command import converse

from hermes.app.channels.setup import PRESS_TEXT
from standins.telegram import GROUP_ID, TOKEN, TelegramStandin

pytestmark = pytest.mark.anyio
USER = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
async def telegram(hermes: Hermes) -> AsyncIterator[TelegramStandin]:
    standin = TelegramStandin()
    async with standin.serving():
        hermes.env["HERMES_CHANNELS__TELEGRAM__BASE_URL"] = standin.url
        yield standin
    assert standin.problems == []


async def command(hermes: Hermes, *words: str, stdin: str = "") -> tuple[int, str, str]:
    done = await anyio.to_thread.run_sync(partial(hermes, *words, stdin=stdin))
    return done.returncode, done.stdout, done.stderr


async def people(hermes: Hermes) -> dict[str, dict[str, str]]:
    _, shown, _ = await command(hermes, "people", "list", "--json")
    return {row["name"]: row["ids"] for row in json.loads(shown)}


async def test_a_chat_is_set_up_without_a_question(
    hermes: Hermes, telegram: TelegramStandin
) -> None:
    words = ["setup", "--channel", "telegram", "--token-stdin", "--chat", str(GROUP_ID)]
    words += ["--person", "alice", "--person-id", "123456789"]
    code, shown, error = await command(hermes, *words, stdin=f"{TOKEN}\n")
    assert (code, TOKEN in shown + error) == (0, False), error
    file = hermes.home / ".env"
    assert f"TELEGRAM_BOT_TOKEN={TOKEN}" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (message,) = telegram.shown()
    assert message.text.startswith("👋 Test message of Hermes")
    assert await people(hermes) == {"alice": {"unix": USER, "telegram": "123456789"}}


async def test_a_chat_that_does_not_work_is_said_and_kept(
    hermes: Hermes, telegram: TelegramStandin
) -> None:
    words = ("setup", "--channel", "telegram", "--token-stdin", "--chat", "42")
    code, _, error = await command(hermes, *words, stdin=TOKEN)
    assert code == 1
    assert "Chat not found" in error and "hermes channels test telegram" in error
    assert TOKEN not in error and TOKEN in (hermes.home / ".env").read_text()


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("--channel", "telegrm"), 3, "did you mean telegram?"),
        (("--chat", "42"), 2, "--channel telegram"),
        (("--channel", "telegram", "--model", "m"), 2, "one after the other"),
    ],
)
def test_what_does_not_fit_is_refused(
    hermes: Hermes, words: tuple[str, ...], code: int, why: str
) -> None:
    done = hermes("setup", *words, "--no-test")
    assert (done.returncode, why in done.stderr) == (code, True), done.stderr


async def press_test_approval(telegram: TelegramStandin) -> None:
    while True:
        for each in telegram.shown():
            if each.text.startswith(PRESS_TEXT[:20]):
                await telegram.press(each.reference, each.buttons[0][0][1])
                return
        await anyio.sleep(0.02)


async def test_the_wizard_learns_who_presses_the_button(
    hermes: Hermes, telegram: TelegramStandin, model_server: str, tmp_path: Path
) -> None:
    await command(hermes, "config", "set", "model.providers.openai.base_url", model_server)
    answers = [
        ("serves the model?", "openai"),
        ("Which model?", "m3"),
        ("OPENAI_API_KEY", "good-key"),
        ("commands run?", ""),
        ("Which mode?", "observe"),
        ("Which chat?", "telegram"),
        ("TELEGRAM_BOT_TOKEN:", TOKEN),
        ("chat for notifications", str(GROUP_ID)),
        ("press its button?", ""),
        ("Your id there", ""),
        ("Your name in Hermes", "alice"),
    ]
    async with anyio.create_task_group() as group:
        group.start_soon(press_test_approval, telegram)
        shown = await anyio.to_thread.run_sync(converse, hermes, answers)
    assert "Write /newbot to @BotFather" in shown
    assert "Pressed by Alice" in shown
    assert TOKEN not in shown
    assert telegram.private_answers == ["Thank you: your answers arrive."]
    assert await people(hermes) == {"alice": {"unix": USER, "telegram": telegram.person}}
