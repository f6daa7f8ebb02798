"""A real watch in a real Telegram client: thread, progress, question and its end."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

import hermes
from hermes.core.channels import parse_press
from hermes.core.events.approvals import ApprovalRequested, ApprovalSettled
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.testing.chat_platform import ShownMessage
from standins.telegram import GROUP_ID, TOKEN, TelegramStandin

pytestmark = pytest.mark.anyio


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramStandin]:
    standin = TelegramStandin()
    async with standin.serving():
        yield standin
    assert standin.problems == []


@asynccontextmanager
async def watching(folder: Path, telegram: TelegramStandin) -> AsyncIterator[None]:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(hermes.__file__).parents[1]),
        "HOME": str(folder),
        "HERMES_HOME": str(folder / "home"),
        "HERMES_DECLARED__RECORD": "false",
        "HERMES_SRE__NOTICES__UPDATE": "2",
        "HERMES_SRE__TRIAGE__RECOVERY": "1",
        "HERMES_CHANNELS__TELEGRAM__SEVERITY": "P3",
        "HERMES_CHANNELS__TELEGRAM__BASE_URL": telegram.url,
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_HOME_CHANNEL": str(GROUP_ID),
    }
    words = [sys.executable, "-m", "hermes.cli", "watch", "--model", "none", "--no-listen"]
    async with await anyio.open_process(
        words, env=environment, stdout=None, stderr=None
    ) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def until(telegram: TelegramStandin, holds: Callable[[ShownMessage], bool]) -> ShownMessage:
    """The first message of Hermes that is as wanted."""
    for _ in range(1_200):
        found = next(filter(holds, telegram.shown()), None)
        if found is not None:
            return found
        await anyio.sleep(0.05)
    raise AssertionError([message.text for message in telegram.shown()])


def shows(words: str) -> Callable[[ShownMessage], bool]:
    return lambda message: words in message.text


async def test_an_incident_has_a_thread_and_a_question_is_settled_everywhere(
    tmp_path: Path, telegram: TelegramStandin
) -> None:
    home = anyio.Path(tmp_path / "home")
    await home.mkdir(mode=0o700)
    command = f"test -e {tmp_path}/up"
    await (home / "probes.yaml").write_text(
        f"probes:\n  - {{name: shop, kind: command, what: '{command}', interval: 0.5, fails: 1}}\n"
    )
    async with watching(tmp_path, telegram):
        declared = await until(telegram, shows("INCIDENT DECLARED"))
        assert declared.thread == ""
        verbs = [parse_press(data) for row in declared.buttons for _, data in row]
        assert [each[0] for each in verbs if each] == ["ack", "status", "mute", "report"]
        ended = await until(telegram, shows("INCIDENT ESCALATED"))
        assert ended.thread
        question = ApprovalRequested(
            run="run-1", approval="ask-1", call_id="c", tool="terminal", hash="h",
            shown="systemctl restart shop", until=datetime.now(UTC) + timedelta(minutes=5),
        )  # fmt: skip
        async with SqliteJournal.open(tmp_path / "home" / "journal.db") as journal:
            await journal.append(question)
            asked = await until(telegram, shows("APPROVAL NEEDED"))
            assert "systemctl restart shop" in asked.text
            assert asked.buttons
            settled = ApprovalSettled(
                run="run-1", approval="ask-1", outcome="denied", by=("alice",), via="cli"
            )
            await journal.append(settled)
        after = await until(telegram, shows("By: alice (cli)"))
        assert after.reference == asked.reference
        assert not after.buttons
        await anyio.Path(tmp_path / "up").touch()
        recovered = await until(telegram, shows("✅ RECOVERED"))
        assert recovered.thread == ended.thread
    assert telegram.calls.count("createForumTopic") == 1
