"""`hermes channels`: what is configured, what waits, and a test message through a real client."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hermes_command import Hermes

from hermes.core.events.operations import (
    ChannelClosed,
    ChannelOpened,
    NotificationAttempted,
    NotificationQueued,
)
from hermes.memory.journal.sqlite_journal import SqliteJournal
from standins.telegram import GROUP_ID, TOKEN, TelegramStandin

pytestmark = pytest.mark.anyio
OLD = datetime.now(UTC) - timedelta(minutes=5)


def listed(hermes: Hermes, **variables: str) -> dict[str, dict[str, Any]]:
    done = hermes("channels", "list", "--json", env=variables)
    return {row["name"]: row for row in json.loads(done.stdout)}


def test_what_each_channel_needs_is_named(hermes: Hermes) -> None:
    rows = listed(hermes, SLACK_BOT_TOKEN="xoxb-1", TELEGRAM_BOT_TOKEN="1:a")
    assert (rows["discord"]["status"], rows["discord"]["detail"]) == (
        "not configured",
        "needs DISCORD_BOT_TOKEN",
    )
    assert rows["signal"]["detail"] == "needs channels.signal.url, channels.signal.account"
    assert rows["slack"]["detail"] == "SLACK_APP_TOKEN is missing"
    assert rows["telegram"]["status"] == "idle"
    assert rows["log"]["kind"] == "sink"
    assert "SLACK_APP_TOKEN is missing" in hermes("channels", env={"SLACK_BOT_TOKEN": "x"}).stdout


async def write_events(home: Path, *events: Any) -> None:
    await anyio.Path(home).mkdir(mode=0o700, parents=True, exist_ok=True)
    async with SqliteJournal.open(home / "journal.db") as journal:
        await journal.append(*events)


async def test_a_message_that_no_process_serves_is_shown_here_and_in_the_status(
    hermes: Hermes, tmp_path: Path
) -> None:
    def queued(notice: str, to: str, at: datetime = OLD) -> NotificationQueued:
        return NotificationQueued(run="r", notice=notice, about="reply", title="t", to=to, at=at)

    await write_events(
        hermes.home,
        queued("n1", "telegram:-100"),
        queued("n2", "telegram"),
        queued("n3", "radio:7"),
        queued("n4", "telegram", at=datetime.now(UTC)),
        queued("n5", "slack:C1"),
        NotificationAttempted(run="r", notice="n5", sink="slack:C1", by="somebody"),
    )
    rows = await anyio.to_thread.run_sync(partial(listed, hermes, TELEGRAM_BOT_TOKEN="1:a"))
    assert rows["telegram"]["waiting"] == 2
    assert rows["slack"]["waiting"] == 0
    assert (rows["radio"]["waiting"], rows["radio"]["detail"]) == (1, "no channel has this name")
    done = await anyio.to_thread.run_sync(hermes, "status")
    assert "radio: not configured, 1 messages wait" in done.stdout


async def test_a_failure_and_a_process_that_serves_it_are_shown(hermes: Hermes) -> None:
    await write_events(
        hermes.home,
        ChannelOpened(run="watch", channel="telegram", by="1@elsewhere", listens=True),
        ChannelClosed(run="watch", channel="slack", by="2@elsewhere", error="invalid_auth"),
    )
    tokens = {"TELEGRAM_BOT_TOKEN": "1:a", "SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}
    rows = await anyio.to_thread.run_sync(partial(listed, hermes, **tokens))
    assert (rows["telegram"]["status"], rows["telegram"]["listens"]) == ("open", True)
    assert (rows["slack"]["status"], rows["slack"]["detail"]) == ("failed", "invalid_auth")


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramStandin]:
    standin = TelegramStandin()
    async with standin.serving():
        yield standin
    assert standin.problems == []


async def test_a_test_message_arrives_in_the_home_chat(
    hermes: Hermes, telegram: TelegramStandin
) -> None:
    env = {
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_HOME_CHANNEL": str(GROUP_ID),
        "HERMES_CHANNELS__TELEGRAM__BASE_URL": telegram.url,
    }
    command = partial(hermes, "channels", "test", "telegram", "--json", env=env)
    done = await anyio.to_thread.run_sync(command)
    assert done.returncode == 0, done.stderr
    (shown,) = telegram.shown()
    assert shown.text.startswith("👋 Test message of Hermes")
    result = json.loads(done.stdout)
    assert (result["chat"], result["reference"]) == (str(GROUP_ID), shown.reference)


async def test_a_chat_that_does_not_exist_is_an_error(
    hermes: Hermes, telegram: TelegramStandin
) -> None:
    env = {
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "HERMES_CHANNELS__TELEGRAM__BASE_URL": telegram.url,
    }
    for chat, words in (("telegram:42", "Chat not found"), ("telegram", "home_channel")):
        command = partial(hermes, "channels", "test", chat, env=env)
        done = await anyio.to_thread.run_sync(command)
        assert done.returncode == 1
        assert words in done.stderr
        assert TOKEN not in done.stderr


def test_a_sink_is_tested_by_its_name_and_what_is_not_configured_is_said(hermes: Hermes) -> None:
    assert hermes("channels", "test", "log").returncode == 0
    assert "Test message of Hermes" in (hermes.home / "notices.log").read_text("utf-8")
    done = hermes("channels", "test", "discord")
    assert done.returncode == 3
    assert "discord is not configured" in done.stderr
