"""One incident in a box: built, checked to be well, broken, handed over, judged."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio

from hermes.core.errors import PlaceFailed
from hermes.core.messages import Value
from hermes.gym.box.box import Box
from hermes.gym.box.carrier import Opener
from hermes.gym.box.here import open_here
from hermes.gym.box.plan import HostPlan
from hermes.gym.oracle import Found, Oracle
from hermes.gym.scenario import Scenario
from hermes.gym.story import Folder, Host, Http, Story

WANTS = "/etc/systemd/system/multi-user.target.wants"
FIRST_USER = 1001
READY = 15.0
"""Seconds for a host to come up, and for a fault to show."""


class Void(PlaceFailed):
    """The host did not come up, or the fault did not take: nothing is to be scored."""


class Outcome(Value, kw_only=True, frozen=True):
    """What the oracle says in the end."""

    resolved: bool
    symptoms: tuple[Found, ...] = ()
    cured: tuple[Found, ...] = ()
    """After the trigger was set off again, held for the window."""
    collateral: tuple[Found, ...] = ()

    @property
    def relieved(self) -> bool:
        return all(each.ok for each in self.symptoms)

    @property
    def damage(self) -> tuple[str, ...]:
        return tuple(f"{each.check}: {each.detail}" for each in self.collateral if not each.ok)


class Episode:
    def __init__(self, scenario: Scenario, story: Story, box: Box) -> None:
        self.scenario = scenario
        self.story = story
        self.box = box
        self.oracle = Oracle(box)
        self.started = time.monotonic()

    async def judge(
        self, *, window: float = 2.0, patience: float = 1.0, recovery: float = READY / 3
    ) -> Outcome:
        """Symptoms first; then the trigger again, all checks over the window, and the damage.

        `recovery`: the seconds that services may take to come back after the trigger.
        """
        story, oracle = self.story, self.oracle
        symptoms = await oracle.until(story.symptoms, ok=True, seconds=patience)
        collateral = await oracle.look(story.collateral)
        cured: list[Found] = []
        if all(each.ok for each in symptoms):
            for trigger in story.cure:
                await oracle.set_off(trigger)
            checks = tuple(dict.fromkeys((*story.healthy, *story.symptoms)))
            await oracle.until(checks, ok=True, seconds=recovery)
            cured = await oracle.held(checks, window=window)
            collateral = await oracle.look(story.collateral)
        resolved = bool(cured) and all(each.ok for each in (*symptoms, *cured, *collateral))
        return Outcome(
            resolved=resolved,
            symptoms=tuple(symptoms),
            cured=tuple(cured),
            collateral=tuple(collateral),
        )

    async def apply(self, commands: Sequence[str]) -> str:
        """Commands one after the other on the first host, or `N:` on host N; what they said."""
        said = []
        for command in commands:
            host, script = on_host(command)
            ran = await self.box.run(script, host=host)
            said.append(f"$ {script}\n{ran.output}[{ran.code}]")
        return "\n".join(said)


@asynccontextmanager
async def open_episode(
    scenario: Scenario, story: Story, *, broken: bool = True, opener: Opener = open_here
) -> AsyncGenerator[Episode, None]:
    """A host that is well, and then (unless told otherwise) broken. Raises `Void`.

    `opener` says where its box is made, and how."""
    plans = [host_plan(host) for host in story.hosts]
    tls = any(isinstance(check, Http) and check.tls for check in story.healthy)
    async with Box(plans, tls=tls, opener=opener) as box:
        episode = Episode(scenario, story, box)
        well = await episode.oracle.until(story.healthy, ok=True, seconds=READY)
        _void_unless([each for each in well if not each.ok], scenario, "is not well to begin with")
        await episode.oracle.remember(story.collateral)
        for number, flow in enumerate(story.traffic):
            targets = [
                {"port": flow.port, "send": f"GET {path} HTTP/1.0\r\n\r\n".encode(), "timeout": 1.0}
                for path in flow.paths
            ]
            await box.traffic(targets, pause=flow.pause, seed=str(number), host=flow.host)
        if broken:
            await break_it(episode)
        yield episode


async def break_it(episode: Episode) -> None:
    story = episode.story
    for command in story.inject:
        host, script = on_host(command)
        ran = await episode.box.run(script, host=host)
        if ran.code:
            raise Void(
                f"{episode.scenario.name}: the injection failed: {script}: {ran.output[-500:]}"
            )
    if story.settle:
        await anyio.sleep(story.settle)
    if story.answer in ("no-incident", "recovered"):
        return
    found = await episode.oracle.until(story.symptoms, ok=False, seconds=READY)
    _void_unless([each for each in found if each.ok], episode.scenario, "shows no symptom")
    episode.started = time.monotonic()


def _void_unless(wrong: Sequence[Found], scenario: Scenario, what: str) -> None:
    if wrong:
        detail = "; ".join(f"{each.check}: {each.detail}" for each in wrong)
        raise Void(f"{scenario.name} {what}: {detail}")


def on_host(command: str) -> tuple[int, str]:
    number, colon, rest = command.partition(":")
    if colon and number.isdigit():
        return int(number), rest
    return 0, command


def host_plan(host: Host) -> HostPlan:
    """A host as its warden builds it."""
    plan = HostPlan()
    plan.name, plan.address = host.name, host.address
    plan.disk_mb, plan.minute = host.disk_mb, host.minute
    plan.disks = tuple((disk.path, disk.megabytes) for disk in host.disks)
    folders = [("/etc/systemd/system", 0o755, 0), (WANTS, 0o755, 0), ("/etc/cron.d", 0o755, 0)]
    for each in host.folders:
        own = each if isinstance(each, Folder) else Folder(path=each)
        folders.append((own.path, own.mode, own.owner))
    plan.folders = tuple(folders)
    files = [(file.path, file.text.encode(), file.mode, file.owner) for file in host.files]
    for unit in host.units:
        name = unit.path.rpartition("/")[2]
        files.append((f"/etc/systemd/system/{name}", unit.text.encode(), 0o644, 0))
        files.append((f"{WANTS}/{name}", b"", 0o644, 0))
    plan.files = (*_people(host), *files)
    return plan


def _people(host: Host) -> tuple[tuple[str, bytes, int, int], ...]:
    numbered = [(name, FIRST_USER + place) for place, name in enumerate(host.users)]
    users = "root:x:0:0:root:/root:/bin/bash\n" + "".join(
        f"{name}:x:{number}:{number}::/home/{name}:/bin/bash\n" for name, number in numbered
    )
    groups = "root:x:0:\n" + "".join(f"{name}:x:{number}:\n" for name, number in numbered)
    nobody = "nobody:x:65534:65534::/:/usr/sbin/nologin\n"
    return (
        ("/etc/passwd", (users + nobody).encode(), 0o644, 0),
        ("/etc/group", (groups + "nogroup:x:65534:\n").encode(), 0o644, 0),
        ("/etc/hosts", f"127.0.0.1 localhost {host.name}\n".encode(), 0o644, 0),
        ("/etc/hostname", f"{host.name}\n".encode(), 0o644, 0),
    )
