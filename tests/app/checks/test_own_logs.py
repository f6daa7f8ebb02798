"""Logs that Hermes writes are not probed: its own reports are no errors of the host."""

import subprocess
import sys
from pathlib import Path

import pytest

from hermes.app.checks.probes import select_admitted_probes
from hermes.app.policy import open_policy
from hermes.environments.local import LocalEnvironment
from hermes.settings.load import load
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.probe_list import ProbeList

pytestmark = pytest.mark.anyio
PRINT_OWN_LOGS = (
    "import os, sys; from pathlib import Path; from hermes.app.checks.probes import own_log_files;"
    "from hermes.settings.load import load; loaded = load(home=Path(sys.argv[1]), variables={});"
    "print(*map(os.path.realpath, own_log_files(loaded)), sep='\\n')"
)


async def probed_logs(folder: Path, *logs: Path) -> set[str]:
    """Which of the logs are probed when the host is discovered by a watch with a sink."""
    home = folder / "home"
    home.mkdir()
    (home / "config.yaml").write_text(
        "sre:\n  notices:\n    sinks:\n"
        f"      - {{kind: log, name: pager, path: {folder}/pager.log}}\n"
        "      - {kind: log, name: near, path: ../near.log}\n"
    )
    loaded = load(home=home, variables={})
    found = ProbeList(
        probes=tuple(
            Probe(name=f"log-{number}", kind="log", what=str(path))
            for number, path in enumerate(logs)
        )
    )
    async with LocalEnvironment(folder, {}) as environment:
        policy = open_policy(loaded, folder, isolated=False)
        admitted = await select_admitted_probes(loaded, found, policy, environment, found_now=True)
    return {each.what for each in admitted.probes if each.kind == "log"}


async def test_files_of_sinks_and_of_the_home_are_not_probed(tmp_path: Path) -> None:
    own = [tmp_path / "pager.log", tmp_path / "near.log", tmp_path / "home" / "notices.log"]
    shop = tmp_path / "shop.log"
    link = tmp_path / "link.log"
    link.symlink_to(tmp_path / "pager.log")
    assert await probed_logs(tmp_path, *own, link, shop) == {str(shop)}


def test_the_file_of_its_own_output_is_not_probed(tmp_path: Path) -> None:
    output, errors = tmp_path / "watch.log", tmp_path / "watch.err"
    with output.open("w") as out, errors.open("w") as err:
        subprocess.run(
            [sys.executable, "-c", PRINT_OWN_LOGS, str(tmp_path / "home")],
            stdout=out,
            stderr=err,
            check=True,
        )
    assert {str(output), str(errors), "/var/log/hermes"} <= set(output.read_text().splitlines())
