"""Where no check observed an incident, two copies tell the failing state from the recovered one."""

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.app.copies.contrast_checks import (
    ContrastCheck,
    ServiceAnswer,
    ServiceMeasures,
    ServicePlace,
    find_contrasts,
)
from hermes.declared.collectors.readers import environment_runner
from hermes.declared.experiments.host_programs import HostService, read_host_programs
from hermes.environments.sandboxing import support
from hermes.gym.box.environment import host_environment
from hermes.gym.episodes.episode import open_episode
from hermes.gym.scenario import find_scenario
from hermes.sre.probes.discovery import discover_probes

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]


async def contrasts_of(name: str) -> tuple[list[ContrastCheck], list[list[int]]]:
    """The checks, and the exit code of each on the failing and on the recovered copy."""
    scenario = find_scenario(name)
    spec = scenario.draw_spec(1)
    async with open_episode(scenario, spec) as episode, host_environment(episode.box) as host:
        service = dict(spec.alert.labels)["service"]
        probes = (await discover_probes(host)).probes
        program = (await read_host_programs(environment_runner(host))).named(service)
        assert program is not None
        log = await host.run(f"journalctl -u {service} -n 50 -o cat -q --no-pager")
        await episode.run_commands(spec.reference)
        failing, recovered = await host.copy(), await host.copy()
        try:
            for script in spec.inject:
                await failing.run(script, timeout_s=60.0)
            found = await find_contrasts(failing, recovered, [program], probes, log.output)
            codes = [
                [(await copy.run(each.probe.what)).code for copy in (failing, recovered)]
                for each in found
            ]
        finally:
            await failing.close()
            await recovered.close()
    return found, codes


@pytest.mark.parametrize(
    ("scenario", "kind"),
    [
        ("staging-settings-reloaded", "answer"),
        ("cpu-runaway", "busy"),
    ],
)
async def test_the_difference_becomes_a_check(scenario: str, kind: str) -> None:
    found, codes = await contrasts_of(scenario)
    assert [each.probe.name.partition("-")[0] for each in found] == [kind]
    assert codes == [[1, 0]], "it fails on the failing copy alone"


def test_a_log_that_is_not_written_any_more_becomes_a_check(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text("1 /\n")
    service = HostService(name="shop", settings_text=f"access_log={log}\n")
    place = ServicePlace(service, [8080], ["/"])
    quiet = ServiceMeasures(answers=((ServiceAnswer(), ServiceAnswer()),))
    assert not place.compare(quiet, quiet)
    found = place.compare(quiet, replace(quiet, grown=(str(log),)))
    assert [each.probe.name for each in found] == ["silent-shop"]
    for answer, code in (("true", 1), (f"echo 2 / >> {log}", 0)):
        script = f"curl() {{ {answer}; }}; {found[0].probe.what}"
        assert subprocess.run(["bash", "-c", script], check=False).returncode == code
