"""An episode: builds the hosts of a scenario, injects its fault, and judges the result.

The oracle checks the behaviour of the hosts from outside, where the agent cannot interfere.
"""

import hashlib
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
from msgspec.structs import replace

from hermes.core.errors import EnvironmentFailed
from hermes.core.messages import Value
from hermes.declared.collectors.collect import CollectOptions, collect_state
from hermes.declared.store import StateStore
from hermes.environments.boxes.backend import BoxOpener, HostPlan
from hermes.environments.boxes.box import Box
from hermes.environments.boxes.local_backend import open_local_box
from hermes.environments.boxes.unit_files import UNIT_FOLDER
from hermes.gym.scenario import Scenario
from hermes.gym.scenario_spec import (
    DiskSpaceCheck,
    FaultTrigger,
    HostFolder,
    HostSpec,
    HttpCheck,
    LoadSpec,
    PortCheck,
    ScenarioCheck,
    ScenarioSpec,
    ScriptCheck,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.supervisors.hosts import (
    OWN_SYSTEMCTL,
    HostBoot,
    OwnUnitControl,
    ShellUnitControl,
    UnitControl,
    WatchMemory,
    boot_host,
    boot_timeout_s,
    reason_not_expressed,
    remember_host,
)
from hermes.skills.supervisors.units import PlainDaemon


class OracleCheckResult(Value, kw_only=True, frozen=True):
    check: str
    ok: bool
    detail: str = ""


class Oracle:
    def __init__(self, box: Box, units: UnitControl | None = None) -> None:
        """`units` acts on the units of the hosts; None for the gym's own supervisor."""
        self._box = box
        self._units = units or OwnUnitControl(box)
        self._recorded_states: dict[UnchangedCheck, str] = {}
        self._recorded_pids: dict[tuple[int, str], object] = {}
        self._recorded_sizes: dict[tuple[int, str], tuple[int, int]] = {}
        self._recorded_mounts: dict[int, list[tuple[str, str, str]]] = {}

    async def record_state(self, checks: Iterable[ScenarioCheck], hosts: int = 0) -> None:
        """Records the state before the fault, for the checks that compare with it."""
        for number in range(hosts):
            self._recorded_mounts[number] = await self._box.list_mounts(host=number)
        for check in checks:
            if isinstance(check, DiskSpaceCheck):
                found = await self._box.disk_space(check.path, host=check.host)
                self._recorded_sizes[check.host, check.path] = _disk_size(found)
            if isinstance(check, UnchangedCheck):
                self._recorded_states[check] = await self._state(check)
            if isinstance(check, UnitRunningCheck):
                unit = await self._units.show(check.unit, host=check.host)
                self._recorded_pids[check.host, check.unit] = unit.get("pid")

    async def run_checks(self, checks: Sequence[ScenarioCheck]) -> list[OracleCheckResult]:
        """All at the same time, as with real users."""
        results: list[OracleCheckResult | None] = [None] * len(checks)

        async def run_one(index: int, check: ScenarioCheck) -> None:
            ok, detail = await self._run_check(check)
            results[index] = OracleCheckResult(check=check.name, ok=ok, detail=detail)

        async with anyio.create_task_group() as group:
            for index, check in enumerate(checks):
                group.start_soon(run_one, index, check)
        return [each for each in results if each is not None]

    async def wait_until(
        self, checks: Sequence[ScenarioCheck], *, ok: bool, seconds: float, every: float = 0.05
    ) -> list[OracleCheckResult]:
        """Repeats the checks until all succeed (with `ok` false: all fail), or time is up."""
        deadline = time.monotonic() + seconds
        while True:
            found = await self.run_checks(checks)
            if all(each.ok == ok for each in found) or time.monotonic() >= deadline:
                return found
            await anyio.sleep(every)
            every = min(every * 1.3, 0.3)  # longer and longer pauses

    async def run_checks_for(
        self, checks: Sequence[ScenarioCheck], *, window: float
    ) -> list[OracleCheckResult]:
        """Repeats the checks for the whole window; stops at the first failure."""
        deadline = time.monotonic() + window
        while True:
            found = await self.run_checks(checks)
            left = deadline - time.monotonic()
            if left <= 0 or not all(each.ok for each in found):
                return found
            await anyio.sleep(min(left, 1.0))

    async def remove_new_mounts(self) -> None:
        """What was mounted since the state was recorded: it would not survive a reboot."""
        for number, known in self._recorded_mounts.items():
            await self._box.remove_mounts(known, host=number)

    async def fire_trigger(self, trigger: FaultTrigger) -> None:
        for unit in trigger.restart:
            await self._units.restart(unit, host=trigger.host)
        if trigger.cron:
            await self._box.call_supervisor("cron", trigger.cron, host=trigger.host)
        if trigger.script:
            await self._units.run(trigger.script, host=trigger.host, trusted=True)
        if trigger.load is not None:
            await self._send_load(trigger.load, trigger.host)
        if trigger.pause:
            await anyio.sleep(trigger.pause)

    async def _send_load(self, load: LoadSpec, host: int) -> None:
        message = {
            "port": load.port,
            "address": load.address,
            "send": load.payload(),
            "timeout": load.within,
        }
        await self._box.send_load(
            message, requests=load.requests, parallel=load.parallel, host=host
        )

    async def _run_check(self, check: ScenarioCheck) -> tuple[bool, str]:
        if isinstance(check, HttpCheck):
            return await self._http(check)
        if isinstance(check, PortCheck):
            return await self._port(check)
        if isinstance(check, DiskSpaceCheck):
            return await self._space(check)
        if isinstance(check, UnitRunningCheck):
            return await self._running(check)
        if isinstance(check, ScriptCheck):
            ran = await self._units.run(
                check.script, host=check.host, timeout=check.timeout, trusted=True
            )
            ok = ran.code == 0 and check.contains in ran.output
            ok = ok and not (check.lacks and check.lacks in ran.output)
            return ok, f"exit code {ran.code}: {ran.output.strip()[-300:]}"
        return await self._same(check)

    async def _space(self, check: DiskSpaceCheck) -> tuple[bool, str]:
        found = await self._box.disk_space(check.path, host=check.host)
        free, inodes = found.get("free", 0) / (1 << 20), found.get("free_inodes", 0)
        total, files = _disk_size(found)
        size, most = self._recorded_sizes.get((check.host, check.path), (total, files))
        if total > size or files > most:
            return (
                False,
                f"enlarged from {size >> 20} to {total >> 20} MB, {most} to {files} inodes",
            )
        ok = free >= check.free_mb and inodes >= check.free_inodes
        return ok, f"{free:.1f} MB free" + (f", {inodes} inodes" if check.free_inodes else "")

    async def _running(self, check: UnitRunningCheck) -> tuple[bool, str]:
        unit = await self._units.show(check.unit, host=check.host)
        age = time.time() - float(unit.get("since", time.time()))
        ok = unit.get("state") == "active" and age >= check.seconds
        detail = f"{unit.get('state', 'missing')} for {age:.1f} s"
        before = self._recorded_pids.get((check.host, check.unit), unit.get("pid"))
        if ok and check.undisturbed and unit.get("pid") != before:
            return False, f"{detail}, but it was restarted"
        return ok, detail

    async def _http(self, check: HttpCheck) -> tuple[bool, str]:
        name = check.tls or "localhost"
        message = {
            "port": check.port,
            "address": check.address,
            "send": check.payload(name),
            "timeout": check.within,
        }
        if check.tls:
            authority = (
                await self._box.read(check.authority, host=check.host) if check.authority else b""
            )
            message |= {"tls": True, "name": name, "authority": (authority or b"").decode()}
        answer = await self._box.send_over_network(message, host=check.host)
        if "error" in answer:
            return False, str(answer["error"])
        head, _, body = bytes(answer["heard"]).partition(b"\r\n\r\n")
        status = int(head.split()[1]) if len(head.split()) > 1 and head.split()[1].isdigit() else 0
        ok = status == check.status and check.contains.encode() in body
        return ok, f"{status} {body[:120].decode('utf-8', 'replace')!r}"

    async def _port(self, check: PortCheck) -> tuple[bool, str]:
        message = {"port": check.port, "timeout": check.within, "send": check.send.encode()}
        if check.contains:
            message["until"] = check.contains.encode()
        answer = await self._box.send_over_network(message, host=check.host)
        if "error" in answer:
            return False, str(answer["error"])
        reply = bytes(answer["heard"])
        return check.contains.encode() in reply, reply[:120].decode("utf-8", "replace")

    async def _same(self, check: UnchangedCheck) -> tuple[bool, str]:
        before = self._recorded_states.get(check, "")
        now = await self._state(check)
        ok = _has_grown(before, now) if check.may_grow else before == now
        return ok, "unchanged" if ok else f"{check.path} was changed"

    async def _state(self, check: UnchangedCheck) -> str:
        if check.may_grow:
            content = await self._box.read(check.path, host=check.host)
            if content is None:
                return ""
            return json.dumps([len(content), content.decode("latin-1")])
        digest = hashlib.sha256()
        for path, mode, owner, content in await self._box.read_tree(check.path, host=check.host):
            digest.update(b"%d %d %d %d " % (mode, owner, len(path), len(content)))
            digest.update(path + content)
        return digest.hexdigest()


def _disk_size(found: Mapping[str, int]) -> tuple[int, int]:
    """Bytes and inodes."""
    return found.get("total", 0), found.get("total_inodes", 0)


def _has_grown(before: str, now: str) -> bool:
    if not before or not now:
        return False
    _, old = json.loads(before)
    _, new = json.loads(now)
    return bool(new.startswith(old))


WANTS_FOLDER = f"{UNIT_FOLDER}/multi-user.target.wants"
FIRST_UID = 1001
READY_TIMEOUT_S = 15.0
"""For a host to become healthy, and for the symptoms of a fault to appear."""


class EpisodeVoid(EnvironmentFailed):
    """The host did not become healthy, or the fault had no effect: the episode is not scored."""


class EpisodeOutcome(Value, kw_only=True, frozen=True):
    resolved: bool
    symptoms: tuple[OracleCheckResult, ...] = ()
    cured: tuple[OracleCheckResult, ...] = ()
    """After the trigger was fired again, over the whole window."""
    collateral: tuple[OracleCheckResult, ...] = ()

    @property
    def relieved(self) -> bool:
        return all(each.ok for each in self.symptoms)

    @property
    def damage(self) -> tuple[str, ...]:
        return tuple(f"{each.check}: {each.detail}" for each in self.collateral if not each.ok)


class Episode:
    def __init__(
        self, scenario: Scenario, spec: ScenarioSpec, box: Box, units: UnitControl | None = None
    ) -> None:
        """`units` acts on the units of the hosts; None for the gym's own supervisor."""
        self.scenario = scenario
        self.spec = spec
        self.box = box
        self.units = units or OwnUnitControl(box)
        self.oracle = Oracle(box, self.units)
        self.memory = WatchMemory()
        """Empty with the gym's own supervisor, whose units show all after the fault as well."""
        self.started = time.monotonic()

    async def judge(
        self,
        *,
        window_s: float = 2.0,
        symptom_timeout_s: float = 1.0,
        recovery_timeout_s: float = READY_TIMEOUT_S / 3,
    ) -> EpisodeOutcome:
        """Checks the symptoms; fires the triggers again; checks everything over the window.

        Services may take `recovery_timeout_s` to come back after a trigger.
        """
        spec, oracle = self.spec, self.oracle
        symptoms = await oracle.wait_until(spec.symptoms, ok=True, seconds=symptom_timeout_s)
        collateral = await oracle.run_checks(spec.collateral)
        cured: list[OracleCheckResult] = []
        if all(each.ok for each in symptoms):
            await oracle.remove_new_mounts()
            for trigger in spec.cure:
                await oracle.fire_trigger(trigger)
            checks = tuple(dict.fromkeys((*spec.healthy, *spec.symptoms)))
            await oracle.wait_until(checks, ok=True, seconds=recovery_timeout_s)
            cured = await oracle.run_checks_for(checks, window=window_s)
            collateral = await oracle.run_checks(spec.collateral)
        resolved = bool(cured) and all(each.ok for each in (*symptoms, *cured, *collateral))
        return EpisodeOutcome(
            resolved=resolved,
            symptoms=tuple(symptoms),
            cured=tuple(cured),
            collateral=tuple(collateral),
        )

    async def run_commands(self, commands: Sequence[str]) -> str:
        """Runs them in order, on the first host or, with `N:`, on host N. Returns a transcript."""
        transcript = []
        for command in commands:
            host, script = split_host_prefix(command)
            ran = await self.units.run(script, host=host)
            transcript.append(f"$ {script}\n{ran.output}[{ran.code}]")
        return "\n".join(transcript)


@asynccontextmanager
async def open_episode(
    scenario: Scenario,
    spec: ScenarioSpec,
    *,
    broken: bool = True,
    opener: BoxOpener = open_local_box,
    supervisor: str = OWN_SYSTEMCTL,
    states: StateStore | None = None,
) -> AsyncGenerator[Episode, None]:
    """Builds the hosts, waits until they are healthy, and injects the fault if `broken`.

    `opener` opens the box; `supervisor` is one of `SUPERVISOR_KINDS`; `states` receives the known
    good states of all hosts. Raises `EpisodeVoid`.
    """
    if reason := reason_not_expressed(supervisor, spec):
        raise EpisodeVoid(f"{scenario.name} cannot run under {supervisor}: {reason}")
    boots = [boot_host(supervisor, each) for each in spec.hosts if supervisor != OWN_SYSTEMCTL]
    plans = [
        build_host_plan(host, boots[number] if boots else None)
        for number, host in enumerate(spec.hosts)
    ]
    tls = any(isinstance(check, HttpCheck) and check.tls for check in spec.healthy)
    async with Box(plans, tls=tls, opener=opener) as box:
        units = ShellUnitControl(box, boots) if boots else None
        episode = Episode(scenario, spec, box, units)
        seconds = READY_TIMEOUT_S + boot_timeout_s(supervisor)
        results = await episode.oracle.wait_until(spec.healthy, ok=True, seconds=seconds)
        failed = [each for each in results if not each.ok]
        _raise_void_for(failed, scenario, "is not healthy before the fault")
        checks = (*spec.collateral, *spec.healthy, *spec.symptoms)
        await episode.oracle.record_state(dict.fromkeys(checks), len(spec.hosts))
        if boots:
            episode.memory = await remember_host(box)
        if states is not None:
            names = [host.name for host in spec.hosts]
            await record_known_good(box, names, states, episode.memory.daemons)
        for number, flow in enumerate(spec.traffic):
            targets = [
                {"port": flow.port, "send": f"GET {path} HTTP/1.0\r\n\r\n".encode(), "timeout": 1.0}
                for path in flow.paths
            ]
            await box.start_traffic(targets, pause=flow.pause, seed=str(number), host=flow.host)
        if broken:
            await inject_fault(episode)
        yield episode


async def inject_fault(episode: Episode) -> None:
    spec = episode.spec
    for command in spec.inject:
        host, script = split_host_prefix(command)
        ran = await episode.units.run(script, host=host)
        if ran.code:
            raise EpisodeVoid(
                f"{episode.scenario.name}: the injection failed: {script}: {ran.output[-500:]}"
            )
    if spec.settle:
        await anyio.sleep(spec.settle)
    edited = [each for each in spec.collateral if isinstance(each, UnchangedCheck)]
    await episode.oracle.record_state([each for each in edited if each.since_fault])
    if spec.answer in ("no-incident", "recovered"):
        return
    found = await episode.oracle.wait_until(spec.symptoms, ok=False, seconds=READY_TIMEOUT_S)
    _raise_void_for([each for each in found if each.ok], episode.scenario, "shows no symptom")
    episode.started = time.monotonic()


def _raise_void_for(checks: Sequence[OracleCheckResult], scenario: Scenario, what: str) -> None:
    if checks:
        detail = "; ".join(f"{each.check}: {each.detail}" for each in checks)
        raise EpisodeVoid(f"{scenario.name} {what}: {detail}")


def split_host_prefix(command: str) -> tuple[int, str]:
    number, colon, rest = command.partition(":")
    if colon and number.isdigit():
        return int(number), rest
    return 0, command


def build_host_plan(host: HostSpec, boot: HostBoot | None = None) -> HostPlan:
    """`boot`: with another supervisor than the gym's own."""
    plan = HostPlan()
    plan.name, plan.address = host.name, host.address
    plan.disk_mb, plan.minute = host.disk_mb, host.minute
    plan.disks = tuple((disk.path, disk.megabytes, disk.inodes) for disk in host.disks)
    folders = [("/etc/cron.d", 0o755, 0)]
    if boot is None:
        folders += [(UNIT_FOLDER, 0o755, 0), (WANTS_FOLDER, 0o755, 0)]
    for each in host.folders:
        folder = each if isinstance(each, HostFolder) else HostFolder(path=each)
        folders.append((folder.path, folder.mode, folder.owner))
    plan.folders = tuple(folders)
    plan.boot = boot.script if boot is not None else ""
    own = (*host.files, *(boot.files if boot is not None else ()))
    files = [(file.path, file.data, file.mode, file.owner) for file in own]
    plan.links = tuple((link.path, link.target) for link in host.links)
    for unit in host.units if boot is None else ():
        name = unit.path.rpartition("/")[2]
        files.append((f"{UNIT_FOLDER}/{name}", unit.text.encode(), 0o644, 0))
        files.append((f"{WANTS_FOLDER}/{name}", b"", 0o644, 0))
    plan.files = (*_account_files(host), *files)
    return plan


def _account_files(host: HostSpec) -> tuple[tuple[str, bytes, int, int], ...]:
    numbered = [(name, FIRST_UID + index) for index, name in enumerate(host.users)]
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


COLLECT_TIMEOUT_S = 60.0


async def record_known_good(
    box: Box, hosts: Sequence[str], store: StateStore, daemons: tuple[PlainDaemon, ...] = ()
) -> None:
    """With the collector of production. Nothing else of the scenario is used than the names.
    `daemons`: of the first host."""
    for host, name in enumerate(hosts):
        options = CollectOptions(host=name, daemons=daemons if host == 0 else ())
        state = await collect_state(
            _script_runner(box, host), known=None, store=store, options=options
        )
        store.save(replace(state, source="known-good"))


def _script_runner(box: Box, host: int) -> Callable[[str, bytes], Awaitable[tuple[int, bytes]]]:
    async def run(script: str, stdin: bytes) -> tuple[int, bytes]:
        ran = await box.run(script, host=host, timeout=COLLECT_TIMEOUT_S, stdin=stdin)
        return ran.code, ran.output.encode()

    return run
