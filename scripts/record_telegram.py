"""Records an incident as people see it in Telegram, from its declaration to its end.

usage: python scripts/record_telegram.py > docs/tutorial/telegram-incident.md
A host of the gym is broken under a real watch. The client library of Telegram is the real one, and
the server is the strict stand-in of the tests. A person approves by a press.
"""

import re
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from msgspec.structs import replace

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from hermes.app.changes.states import open_state_store
from hermes.app.drills.drill import BOX_WORK_FOLDER
from hermes.app.people import user_name
from hermes.app.watch import open_watch
from hermes.cli.drills.demo import DEMO_SETTINGS
from hermes.gym.box.environment import host_environment
from hermes.gym.episodes.episode import inject_fault, open_episode
from hermes.gym.scenario import find_scenario
from hermes.settings.load import load
from hermes.sre.probes.probe import Probe
from hermes.testing.chat_platform import ShownMessage
from standins.telegram import GROUP_ID, PERSON, TOKEN, TelegramStandin

SCENARIO, SEED = "config-typo-after-edit", 3
APPROVE, ENDED = "once:", "INCIDENT RESOLVED"
PERSON_NAME = "alice"
MAX_START_S = 60.0
HEALTHY_S, MAX_INCIDENT_S, SETTLED_S, POLL_S = 3.0, 90.0, 3.0, 0.05
"""Seconds: healthy before the fault, for the incident, after its end, between two looks."""
PAGE = """\
# A recorded incident in Telegram

`scripts/record_telegram.py` wrote this page. The watch, the gateway, the policy (mode `suggest`:
every change waits for an answer), the playbooks and the client library of Telegram are real; no
model is used. The broken host is one of the gym (`{scenario}`, seed {seed}).

The server is **not Telegram** but the strict stand-in of its Bot API that the tests use. It refuses
calls that Telegram documents as wrong, and refused none here. The script makes the presses of
{person}.

Seconds count from the fault. Buttons are in brackets.
{entries}"""
ENTRY = """
## {seconds:.0f} s: {title}

{text}
"""


class TelegramRecorder:
    """Notes each message when it appears or changes, and approves what is asked."""

    def __init__(self, platform: TelegramStandin) -> None:
        self._platform = platform
        self._seen: dict[str, ShownMessage] = {}
        self.began = time.monotonic()
        self.entries: list[str] = []

    async def follow(self) -> None:
        """Return when the incident is resolved. Raises `SystemExit` when it does not come to it."""
        with anyio.move_on_after(MAX_INCIDENT_S):
            while not any(ENDED in message.text for message in self._seen.values()):
                await self._look()
            with anyio.move_on_after(SETTLED_S):
                while True:
                    await self._look()
            return
        texts = [message.text for message in self._seen.values()]
        raise SystemExit("\n\n".join(["the incident was not resolved: nothing to record", *texts]))

    async def _look(self) -> None:
        for message in self._platform.shown():
            before = self._seen.get(message.reference)
            if before == message:
                continue
            self._seen[message.reference] = message
            where = f"in the thread {message.thread}" if message.thread else "in the group"
            verb = "changes" if before else "appears"
            self._note(f"message {message.reference} {verb} {where}", drawn(message))
            await self._approve(message)
        await anyio.sleep(POLL_S)

    async def _approve(self, message: ShownMessage) -> None:
        for label, data in (button for row in message.buttons for button in row):
            if data.startswith(APPROVE):
                text = f"{PERSON_NAME} presses **[{label}]** below message {message.reference}."
                self._note("a press", text)
                await self._platform.press(message.reference, data)

    def _note(self, title: str, text: str) -> None:
        seconds = time.monotonic() - self.began
        self.entries.append(ENTRY.format(seconds=seconds, title=title, text=text))


def drawn(message: ShownMessage) -> str:
    rows = ["  ".join(f"[{label}]" for label, _ in row) for row in message.buttons]
    below = "\n\n" + "\n".join(rows) if rows else ""
    return f"```text\n{message.text}{below}\n```"


def recorded_variables(home: Path, url: str) -> dict[str, str]:
    """The configuration of the watch and of the gateway."""
    home.mkdir(mode=0o700)
    ids = f"{{unix: {user_name()}, telegram: {PERSON['id']}}}"
    group = f"{{telegram: {{allowed_groups: [{GROUP_ID}]}}}}"
    (home / "config.yaml").write_text(f"people:\n  {PERSON_NAME}: {ids}\nchannels: {group}\n")
    (home / "script.jsonl").touch()  # nobody talks with the gateway here
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/bin",
        "HOME": str(home.parent),
        "HERMES_HOME": str(home),
        "HERMES_WATCH__MODE": "suggest",
        "HERMES_MODEL__DEFAULT": f"scripted:{home / 'script.jsonl'}",
        "HERMES_CHANNELS__TELEGRAM__BASE_URL": url,
        "HERMES_CHANNELS__TELEGRAM__SEVERITY": "P3",
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_HOME_CHANNEL": str(GROUP_ID),
    }


@asynccontextmanager
async def serving_presses(
    variables: dict[str, str], platform: TelegramStandin
) -> AsyncIterator[None]:
    words = [sys.executable, "-m", "hermes.cli", "gateway", "run"]
    async with await anyio.open_process(words, env=variables, stdout=None, stderr=None) as gateway:
        try:
            with anyio.fail_after(MAX_START_S):
                await platform.receiving()
            yield
        finally:
            gateway.send_signal(signal.SIGTERM)
            await gateway.wait()


def service_probe(probe: Probe) -> Probe | None:
    """In a box, load and memory are those of the whole machine."""
    return replace(probe, interval=0.5) if probe.service else None


async def record(folder: Path) -> list[str]:
    platform = TelegramStandin()
    scenario = find_scenario(SCENARIO)
    async with platform.serving():
        variables = recorded_variables(folder / "home", platform.url)
        loaded = load(home=folder / "home", variables=variables, overrides=DEMO_SETTINGS)
        states, spec = open_state_store(loaded), scenario.draw_spec(SEED)
        async with open_episode(scenario, spec, broken=False, states=states) as episode:
            host = host_environment(episode.box, name=episode.spec.hosts[0].name)
            async with (
                open_watch(
                    loaded,
                    model="none",
                    folder=BOX_WORK_FOLDER,
                    listen=False,
                    outputs=["chats"],
                    environment=host,
                    adapt=service_probe,
                ),
                serving_presses(variables, platform),
            ):
                await anyio.sleep(HEALTHY_S)
                await inject_fault(episode)
                recorder = TelegramRecorder(platform)
                await recorder.follow()
    if platform.problems:
        raise SystemExit(f"the stand-in refused: {platform.problems}")
    return recorder.entries


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rec-") as folder:
        entries = anyio.run(record, Path(folder))
    text = PAGE.format(
        scenario=SCENARIO, seed=SEED, person=PERSON_NAME, entries="".join(entries)
    ).replace(f"{folder}/", "")
    sys.stdout.write(re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE))


if __name__ == "__main__":
    main()
