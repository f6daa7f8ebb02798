"""Processes of Hermes with chat channels and nothing to do: `python bench/chats.py idle`.

All channels are configured against strict stand-ins of their platforms, which run in this process.
"""

import json
import os
import signal
import sys
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
from idle_watch import MemorySample, children, cpu_seconds, free_port, running

import hermes
from hermes.memory.journal.sqlite_journal import SqliteJournal

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from standins import (
    discord,
    email,
    matrix,
    mattermost,
    slack,
    telegram,
    whatsapp,
)
from standins import signal as signal_cli

MAX_IDLE_MB, MAX_IDLE_CPU_PERCENT = 120.0, 0.5
START_TIMEOUT_S, WARM_UP_S = 300.0, 30.0
LIBRARIES = ("telegram", "slack_sdk", "discord", "aiohttp", "apprise", "imaplib", "smtplib")
PROGRAM = """
import signal, sys
from pathlib import Path
file = Path(sys.argv.pop(1))
def dump():
    file.with_suffix('.new').write_text(' '.join(sorted(sys.modules)))
    file.with_suffix('.new').rename(file)
signal.signal(signal.SIGUSR1, lambda *_: dump())
from hermes.cli.main import main
sys.exit(main())
"""


async def open_platforms(stack: AsyncExitStack) -> tuple[dict[str, Any], dict[str, str]]:
    """The sections of all channels, and their secrets; the stand-ins serve until the stack ends."""

    async def url(standin: Any) -> str:
        await stack.enter_async_context(standin.serving())
        return str(standin.url)

    mail = email.EmailStandin()
    await stack.enter_async_context(mail.serving())
    sections: dict[str, Any] = {
        "telegram": {"base_url": await url(telegram.TelegramStandin())},
        "slack": {"base_url": f"{await url(slack.SlackStandin())}/api"},
        "discord": {"base_url": f"{await url(discord.DiscordStandin())}/api/v10"},
        "whatsapp": {
            "base_url": await url(whatsapp.WhatsAppStandin()),
            "phone_number_id": whatsapp.NUMBER,
        },
        "signal": {"url": await url(signal_cli.SignalStandin()), "account": signal_cli.ACCOUNT},
        "matrix": {"homeserver": await url(matrix.MatrixStandin())},
        "mattermost": {"url": await url(mattermost.MattermostStandin())},
        "email": {
            "address": email.OWN, "smtp_host": "127.0.0.1", "smtp_port": mail.smtp_port,
            "imap_host": "127.0.0.1", "imap_port": mail.imap_port, "inbound": True,
        },
    }  # fmt: skip
    secrets = {
        "TELEGRAM_BOT_TOKEN": telegram.TOKEN, "SLACK_BOT_TOKEN": slack.BOT_TOKEN,
        "SLACK_APP_TOKEN": slack.APP_TOKEN, "DISCORD_BOT_TOKEN": discord.TOKEN,
        "WHATSAPP_TOKEN": whatsapp.TOKEN, "WHATSAPP_APP_SECRET": whatsapp.APP_SECRET,
        "WHATSAPP_VERIFY_TOKEN": "verify", "MATRIX_ACCESS_TOKEN": matrix.TOKEN,
        "MATTERMOST_TOKEN": mattermost.TOKEN, "EMAIL_PASSWORD": email.PASSWORD,
    }  # fmt: skip
    return sections, secrets


class IdleProcess:
    """A Hermes with some channels, and nothing to do."""

    def __init__(self, folder: Path, command: str, sections: dict[str, Any]) -> None:
        self.folder, self.command, self.sections = folder, command, sections
        self.modules_file = folder / "modules"
        home = folder / "home"
        home.mkdir(parents=True)
        config = {"channels": sections, "web": {"port": free_port()}}
        (home / "config.yaml").write_text(json.dumps(config))
        probe = {"name": "memory", "kind": "memory", "limit": 101}
        (home / "probes.yaml").write_text(json.dumps({"probes": [probe]}))

    def argv(self) -> list[str]:
        return [sys.executable, "-c", PROGRAM, str(self.modules_file), *self.command.split()]

    def environment(self, secrets: dict[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "HERMES_HOME": str(self.folder / "home"),
            "PYTHONPATH": str(Path(hermes.__file__).resolve().parents[1]),
            **{
                key: each
                for key, each in secrets.items()
                if key.split("_")[0].lower() in self.sections
            },
        }

    async def until_open(self) -> None:
        """Until each channel was opened, or the watch started where there is none."""
        wanted, kind = len(self.sections), "channel.opened" if self.sections else "watch.started"
        with anyio.fail_after(START_TIMEOUT_S):
            while True:
                await anyio.sleep(1)
                if (self.folder / "home/journal.db").exists():
                    async with SqliteJournal.open(self.folder / "home/journal.db") as journal:
                        found = [1 async for _ in journal.read(kinds=(kind,))]
                    if len(found) >= max(wanted, 1):
                        return

    async def until_recorded(self, pid: int) -> None:
        """Until no child records the state of the host, as a watch does after its start."""
        with anyio.fail_after(START_TIMEOUT_S):
            while any(is_recorder(int(each)) for each in children(pid)):  # noqa: ASYNC110
                await anyio.sleep(1)

    async def modules(self, pid: int) -> set[str]:
        os.kill(pid, signal.SIGUSR1)
        with anyio.fail_after(60):
            while not self.modules_file.exists():  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.1)
        return {name.partition(".")[0] for name in self.modules_file.read_text().split()}


def is_recorder(pid: int) -> bool:
    try:
        return b"--for-watch" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def remote_ports(pid: int) -> set[int]:
    """The ports that a process is connected to."""
    inodes = set[str]()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            inodes.add(str(file.readlink()).removeprefix("socket:[").rstrip("]"))
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {
        int(row[2].partition(":")[2], 16) for row in rows if row[9] in inodes and row[3] == "01"
    }


async def measure_idle(folder: Path, seconds: float) -> bool:
    async with AsyncExitStack() as stack:
        sections, secrets = await open_platforms(stack)
        held = True
        for number, (command, names) in enumerate(
            [
                ("gateway run", sorted(sections)),
                ("up --model none", sorted(sections)),
                ("up --model none", []),
                ("gateway run", ["telegram"]),
            ]
        ):
            chosen = {name: sections[name] for name in names}
            idle = IdleProcess(folder / str(number), command, chosen)
            with running(idle.argv(), env=idle.environment(secrets), cwd=folder) as child:
                await idle.until_open()
                await anyio.sleep(WARM_UP_S)
                await idle.until_recorded(child.pid)
                began, before = time.monotonic(), sum(cpu_seconds(child.pid))
                await anyio.sleep(seconds if len(names) != 1 else 1)
                cpu = 100 * (sum(cpu_seconds(child.pid)) - before) / (time.monotonic() - began)
                memory = MemorySample(child.pid).unshared
                ports, loaded = remote_ports(child.pid), await idle.modules(child.pid)
            libraries = [name for name in LIBRARIES if name in loaded]
            print(
                f"hermes {command}, {len(names)} channels: {memory:.1f} MB (at most "
                f"{MAX_IDLE_MB:g}), {cpu:.2f} % of a core, {len(ports)} connections, "
                f"libraries: {', '.join(libraries) or 'none'}; load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
            held = held and memory <= MAX_IDLE_MB
            if command == "gateway run" and len(names) > 1:
                held = held and cpu <= MAX_IDLE_CPU_PERCENT
            if len(names) < 2:
                held = held and len(ports) <= len(names) and set(libraries) <= set(names)
    return held
