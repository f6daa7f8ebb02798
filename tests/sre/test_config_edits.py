"""Edits of a configuration are noticed wherever it lies, and whatever is written beside it."""

import os
import time
from pathlib import Path

import pytest
from probe_house import free_port, this_host
from test_trouble_ahead import a_config, children, needs, nginx_file, running_nginx

from hermes.core.bus import Bus
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.probes.evaluation import ProbeHistory, save_history
from hermes.sre.probes.probe_runner import run_probes
from hermes.sre.probes.scheduler import ProbeScheduler

pytestmark = pytest.mark.anyio


def aged(*files: Path) -> None:
    """As if the files were edited long ago."""
    for file in files:
        os.utime(file, (1_700_000_000, 1_700_000_000))


@needs("nginx")
async def test_a_log_beside_the_configuration_does_not_hide_an_edit(tmp_path: Path) -> None:
    file = nginx_file(tmp_path, free_port())
    aged(file)
    logs = file.parent / "logs"
    logs.mkdir()
    (logs / "access").write_text("GET / 200\n")
    probe = a_config(f"nginx:{file}")
    async with this_host(tmp_path) as here:
        good = (await run_probes(here, [probe], {}))["c"]
        assert good.code == 0
        nginx_file(tmp_path, free_port(), "lissten 80;")
        os.utime(file, (1_700_000_100, 1_700_000_100))
        (logs / "access").write_text("GET / 200\nGET / 200\n")
        assert (await run_probes(here, [probe], {"c": good.keep}))["c"].code == 1


@needs("nginx")
async def test_an_edit_of_an_included_file_elsewhere_is_noticed(tmp_path: Path) -> None:
    part = tmp_path / "elsewhere" / "part.conf"
    part.parent.mkdir()
    part.write_text("root /srv;\n")
    file = nginx_file(tmp_path, free_port(), f"\n include {part.parent}/*.conf;\n")
    aged(file, part)
    probe = a_config(f"nginx:{file}")
    async with this_host(tmp_path) as here:
        good = (await run_probes(here, [probe], {}))["c"]
        assert good.code == 0
        part.write_text("roott /srv;\n")
        os.utime(part, (1_700_000_100, 1_700_000_100))
        found = (await run_probes(here, [probe], {"c": good.keep}))["c"]
    assert found.code == 1
    assert f"{part}:1" in found.text


@needs("nginx")
async def test_files_that_are_written_all_the_time_are_checked_all_the_same(tmp_path: Path) -> None:
    file = nginx_file(tmp_path, free_port(), "lissten 80;")
    probe = a_config(f"nginx:{file}")
    long_ago = f"0:{int(time.time()) - 50}:1:the configuration of nginx is good"
    async with this_host(tmp_path) as here:
        assert (await run_probes(here, [probe], {"c": long_ago}))["c"].code == 1


@needs("nginx")
async def test_health_runs_the_check_instead_of_repeating_a_verdict(tmp_path: Path) -> None:
    file = nginx_file(tmp_path, free_port(), "lissten 80;")
    said = f"0:{int(time.time())}:1:the configuration of nginx is good"
    save_history(tmp_path, {"c": ProbeHistory(keep=said)})
    async with this_host(tmp_path) as here:
        probe = a_config(f"nginx:{file}")
        scheduler = ProbeScheduler([probe], here, Bus(InMemoryJournal()), home=tmp_path)
        [found] = await scheduler.run_once()
    assert found.state == "failing"


@needs("nginx")
async def test_a_failed_reload_is_seen_in_a_log_of_any_name(tmp_path: Path) -> None:
    """The configuration is good and was checked just now; only the main process knows more."""
    port = free_port()
    with running_nginx(tmp_path, port, log="main.txt") as nginx:
        [worker] = children(nginx.pid)
        line = f"2038/01/01 00:00:00 [emerg] {nginx.pid}#{nginx.pid}: bind() to 0.0.0.0:1 failed\n"
        file = tmp_path / "conf" / "nginx.conf"
        aged(file)
        async with this_host(tmp_path) as here:
            good = (await run_probes(here, [a_config(f"nginx:{file}")], {}))["c"]
            assert good.code == 0
            with (tmp_path / "main.txt").open("a") as log:
                log.write(line)
            found = (await run_probes(here, [a_config(f"nginx:{file}")], {"c": good.keep}))["c"]
        assert children(nginx.pid) == {worker}
    assert found.code == 1
    assert "the last reload of nginx failed" in found.text
