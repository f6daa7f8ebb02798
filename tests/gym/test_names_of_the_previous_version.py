"""Scenarios that others wrote for the previous version still load and play."""

import logging
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from hermes.environments.sandboxing import support
from hermes.gym.episodes.self_test import prove_scenario
from hermes.gym.scenario import find_scenario, load_scenario
from hermes.gym.services.python_service import shop_service
from hermes.plumbing.renamed import report_renamed

FOLDER = Path(__file__).parent / "previous_version" / "scaled-to-zero"
OLD_NAMES = """
dice Dice HELD_OUT HOSTS SERVICES Split WORDS
story Alert Answer Check Disk Fault File Folder Group Host Http Port Running Same Script Severity
story Space Story Traffic Trigger
scenario PATH SEVERAL_USERS Scenario find known load_scenario texts
parts.afresh afresh up
parts.compose TRIES drawn joined with_decoy
parts.hands asking others_kept remembered served_by
parts.microweb SHELF STYLES filled program
parts.nginx NEEDS Nginx WORKER nginx
parts.pg_client PG_CLIENT
parts.pg_found DEBIAN Server USUAL server
parts.pg_server NEEDS OWNER Postgres USERS postgres
parts.pg_template DATABASE FOLDER INITDB NAME cluster
parts.pki AUTHORITY first_pairs
parts.premises Neighbour PYTHON Premises alert by_hand changes neighbour premises
parts.redis_server CLIENT NEEDS Redis redis
parts.shell_lines ask_often moves
parts.shop shop unit
"""


@pytest.fixture(autouse=True)
def nothing_reported_yet() -> None:
    report_renamed.cache_clear()


@pytest.mark.parametrize("line", OLD_NAMES.split("\n")[1:-1])
def test_every_name_of_the_previous_version_can_be_imported(line: str) -> None:
    module, *names = line.split()
    found: dict[str, object] = {}
    exec(f"from hermes.gym.{module} import {', '.join(names)}", found)
    assert all(found[name] is not None for name in names)


def test_the_new_name_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        assert import_module("hermes.gym.parts.shop").shop is shop_service
    (text,) = caplog.messages
    assert text.startswith(
        "hermes.gym.parts.shop.shop is now hermes.gym.services.python_service.shop_service"
    )


@pytest.mark.parametrize("module", ["dice", "story", "scenario", "parts.shop"])
def test_a_name_that_never_was_is_an_import_error(module: str) -> None:
    with pytest.raises(ImportError, match="no_such_name"):
        exec(f"from hermes.gym.{module} import no_such_name")


def test_a_scenario_of_the_previous_version_draws_the_same_as_today() -> None:
    old, new = load_scenario(FOLDER), find_scenario("scaled-to-zero")
    for seed in range(5):
        today = new.draw_spec(seed)
        # What it called a shortcut does no damage: today it is `futile`.
        assert old.story(seed) == msgspec.structs.replace(today, shortcut=today.futile, futile=())


@pytest.mark.anyio
@pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason()))
async def test_a_scenario_of_the_previous_version_plays() -> None:
    proof = await prove_scenario(load_scenario(FOLDER), 1)
    assert not proof.void
    found = [problem.partition("\n")[0] for problem in proof.problems]
    assert found == ["the shortcut damages nothing that a check sees"]
