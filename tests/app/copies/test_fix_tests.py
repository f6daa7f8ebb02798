"""Commands are tried on copies of a box, and fixes are tested before they touch anything."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.app.copies.fix_tests import CopyFixTester, try_commands
from hermes.app.gym_commander import REPLAY_SETTINGS, run_playbooks
from hermes.app.skills.library import open_library
from hermes.app.tools.tooling import copy_tools
from hermes.core.errors import ToolError
from hermes.core.events.base import BaseEvent
from hermes.core.events.experiments import FixTested
from hermes.core.events.incidents import ChangeBegan
from hermes.declared.experiments.fix_trial import lacking_path
from hermes.declared.store import StateStore
from hermes.environments.boxes.box import Box
from hermes.environments.sandboxing import support
from hermes.gym.box.environment import BoxHostEnvironment, host_environment
from hermes.gym.episodes.episode import open_episode
from hermes.gym.episodes.responder_context import open_bare_run, sandbox_rules
from hermes.gym.scenario import find_scenario
from hermes.policy.redaction.redactor import Redactor
from hermes.settings.load import load
from hermes.skills.discovery import SkillRoot
from hermes.skills.library import Skill, SkillLibrary

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
SCENARIO = "config-typo-after-edit"
SETTINGS_FILE = "/etc/ledger/ledger.conf"


@asynccontextmanager
async def broken_host() -> AsyncGenerator[tuple[Box, BoxHostEnvironment], None]:
    scenario = find_scenario(SCENARIO)
    async with (
        open_episode(scenario, scenario.draw_spec(1, "train")) as episode,
        host_environment(episode.box) as environment,
    ):
        yield episode.box, environment


def test_a_path_that_only_the_host_has_says_nothing_about_a_fix(tmp_path: Path) -> None:
    words = "it ended with exit code 1, not 0: bash: line 1: cd: {}: No such file or directory"
    assert lacking_path(words.format(tmp_path)) == str(tmp_path)
    assert lacking_path(words.format(tmp_path / "nowhere")) == ""


async def test_candidates_run_on_copies_of_their_own_and_nothing_reaches_the_host() -> None:
    async with broken_host() as (box, environment):
        before = await box.read(SETTINGS_FILE)
        text = await try_commands(
            environment,
            [f"echo one >> {SETTINGS_FILE}; echo made", f"rm {SETTINGS_FILE}; ls /etc/ledger"],
            10.0,
        )
        assert await box.read(SETTINGS_FILE) == before
    first, second = text.split("\n\n")
    assert "made" in first
    assert f"[changed on the copy: {SETTINGS_FILE}]" in first
    assert second.startswith("2. rm ")
    assert "ledger.conf" not in second.splitlines()[1:-1]


async def test_output_is_withheld_where_nobody_knows_what_a_command_reads() -> None:
    async with broken_host() as (_, environment):
        text = await try_commands(
            environment, ["echo 'cat /etc/ledger/*' > /tmp/x; chmod +x /tmp/x; /tmp/x"], 10.0
        )
        moved = await try_commands(environment, [f"mv {SETTINGS_FILE} /tmp/y; cat /tmp/y"], 10.0)
    assert "workers" not in text
    assert "its output is withheld" in text
    assert "workers" not in moved


async def test_a_command_that_does_not_end_is_ended() -> None:
    async with broken_host() as (_, environment):
        assert "timed out" in await try_commands(environment, ["sleep 600"], 1.0)


async def test_the_tool_is_offered_only_where_the_environment_can_be_copied() -> None:
    async with broken_host() as (_, environment):
        assert list(copy_tools(environment)) == ["try_on_copy"]
        environment.copyable = False
        assert not copy_tools(environment)
        with pytest.raises(ToolError, match="cannot be copied"):
            await try_commands(environment, ["true"], 1.0)


WRONG_PLAYBOOK = """\
version: 1
summary: "the machine name is written down again"
signature:
  words: ["ledger"]
  probes:
    - name: look
      command: echo seen
parameters: {}
steps:
  - name: write
    command: "touch /etc/ledger/damage"
    undo: "rm -f /etc/ledger/damage"
verify:
  - name: done
    command: "true"
"""


def wrong_skill(folder: Path) -> Skill:
    skill = folder / "wrong"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: wrong\ndescription: ledger fails\n---\nHow to.\n")
    (skill / "playbook.yaml").write_text(WRONG_PLAYBOOK)
    return SkillLibrary([SkillRoot(folder, "user")], {"wrong": "trusted"}).skills[0]


async def play(folder: Path, skills: list[Skill]) -> tuple[list[BaseEvent], bool]:
    """The incident from its alert to its end, and whether the wrong playbook touched the host."""
    scenario = find_scenario(SCENARIO)
    async with (
        open_episode(scenario, scenario.draw_spec(1, "train")) as episode,
        open_bare_run(episode, sandbox_rules()) as stage,
    ):
        redact = Redactor({}).clean
        # Not within 12 s: this machine may be busy, and then nothing is clear in time.
        tester = CopyFixTester(stage.environment, StateStore(folder), redact=redact, limit_s=90.0)
        await run_playbooks(skills, episode, stage, REPLAY_SETTINGS, None, tester)
        damaged = await episode.box.read("/etc/ledger/damage") is not None
        events = [each.event async for each in stage.bus.journal.read(run=stage.run)]
    return [each for each in events if isinstance(each, BaseEvent)], damaged


async def test_a_playbook_is_tested_on_a_copy_before_it_runs(tmp_path: Path) -> None:
    bundled = open_library(load(home=tmp_path / "home")).skills
    right = [each for each in bundled if each.name == "config-restore"]
    events, _ = await play(tmp_path / "states", right)
    test = next(each for each in events if isinstance(each, FixTested))
    assert (test.fix, test.outcome) == ("config-restore", "recovered")
    assert test.checks
    kinds = [type(each) for each in events]
    assert kinds.index(FixTested) < kinds.index(ChangeBegan)


async def test_a_playbook_that_fails_on_the_copy_never_touches_the_host(tmp_path: Path) -> None:
    events, damaged = await play(tmp_path / "states", [wrong_skill(tmp_path / "skills")])
    tests = [each for each in events if isinstance(each, FixTested)]
    assert [(each.fix, each.outcome) for each in tests] == [("wrong", "failed")]
    assert not damaged
    assert not [each for each in events if isinstance(each, ChangeBegan)]
