"""Causes are proved on copies of a box, reverted in the box, and nothing is left behind."""

import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from hermes.app.changes.cause_search import ExperimentFinder, ExperimentHost
from hermes.app.gym_commander import REPLAY_SETTINGS, build_case, run_playbooks
from hermes.app.incidents.drill import make_incident_drill
from hermes.core.events.experiments import ExperimentRan, ExperimentsEnded
from hermes.core.events.incidents import ChangeBegan, IncidentDiagnosed
from hermes.declared.store import StateStore
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import Episode, open_episode
from hermes.gym.episodes.responder_context import BareEpisodeRun, open_bare_run, sandbox_rules
from hermes.gym.episodes.self_test import prove_scenario
from hermes.gym.scenario import find_scenario, load_scenario
from hermes.policy.redaction.redactor import Redactor
from hermes.sre.reports.experiments import ended_text

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
SETTINGS = replace(
    REPLAY_SETTINGS,
    reflex=False,
    verify=replace(REPLAY_SETTINGS.verify, patience=60.0),  # on a busy machine
)
SCENARIO = "config-typo-after-edit"


@asynccontextmanager
async def broken_host(
    store: StateStore,
    *,
    record: bool = True,
    name: str = SCENARIO,
    inject: str = "",
    alone: bool = False,
) -> AsyncGenerator[tuple[Episode, BareEpisodeRun, ExperimentFinder], None]:
    scenario = find_scenario(name)
    spec = scenario.draw_spec(1, "train")
    added = [inject.format(*spec.fault.value)] * bool(inject)
    spec = replace(spec, inject=(*([] if alone else spec.inject), *added))
    states = store if record else None
    async with (
        open_episode(scenario, spec, states=states) as episode,
        open_bare_run(episode, sandbox_rules()) as stage,
    ):
        host = ExperimentHost.from_environment(stage.environment, store)
        yield episode, stage, ExperimentFinder(host, redact=Redactor({}).clean)


async def test_the_edited_line_is_named_and_reverted(tmp_path: Path) -> None:
    async with broken_host(StateStore(tmp_path)) as (episode, stage, finder):
        ending = await run_playbooks((), episode, stage, SETTINGS, finder)
        assert (ending.outcome, ending.answered_by) == ("resolved", "experiment")
        events = [each.event async for each in stage.bus.journal.read(run=stage.run)]
        outcome = await episode.judge(window_s=0.5, symptom_timeout_s=60.0)
    assert outcome.resolved
    ended = next(each for each in events if isinstance(each, ExperimentsEnded))
    assert ended.causes == ("file /etc/ledger/ledger.conf",)
    assert ended.diff.startswith("/etc/ledger/ledger.conf:\n-workers = ")
    diagnosed = next(each for each in events if isinstance(each, IncidentDiagnosed))
    assert diagnosed.component == "ledger.service: /etc/ledger/ledger.conf, line 3"
    assert diagnosed.evidence
    assert all(each.undo for each in events if isinstance(each, ChangeBegan))
    first = next(each for each in events if isinstance(each, ExperimentRan))
    assert first.outcome in ("fails", "passes")


async def test_a_fault_that_no_check_observes_shows_in_contrast_to_a_healthy_copy(
    tmp_path: Path,
) -> None:
    name = "staging-settings-reloaded"  # answers are wrong, with status 200
    async with broken_host(StateStore(tmp_path), name=name) as (episode, stage, finder):
        ending = await run_playbooks((), episode, stage, SETTINGS, finder)
        events = [each.event async for each in stage.bus.journal.read(run=stage.run)]
        outcome = await episode.judge(window_s=0.5, symptom_timeout_s=60.0)
    assert (ending.outcome, ending.answered_by) == ("resolved", "experiment")
    assert outcome.resolved
    ended = next(each for each in events if isinstance(each, ExperimentsEnded))
    assert ended.causes == ("file /etc/shipping/profiles/active.conf",)


async def test_a_cause_is_proved_where_copies_lack_what_answers_on_the_host(tmp_path: Path) -> None:
    """At the wrong port a program without a supervisor answers 404; in a copy nothing does."""
    stray = "setsid python3 -m http.server {} --bind 127.0.0.1 --directory /srv >/dev/null 2>&1 &"
    found = broken_host(StateStore(tmp_path), name="wrong-upstream", inject=f"{stray} sleep 1")
    async with found as (episode, stage, finder):
        ending = await run_playbooks((), episode, stage, SETTINGS, finder)
        events = [each.event async for each in stage.bus.journal.read(run=stage.run)]
        outcome = await episode.judge(window_s=0.5, symptom_timeout_s=60.0)
    ended = next(each for each in events if isinstance(each, ExperimentsEnded))
    assert ended.status == "proved", ended.why
    assert "502 instead of status 404" in ended_text(ended)
    assert (ending.outcome, ending.answered_by) == ("resolved", "experiment")
    assert outcome.resolved


@pytest.mark.skipif(not shutil.which("nft"), reason="needs nft")
async def test_a_rule_of_the_packet_filter_is_named_and_deleted(tmp_path: Path) -> None:
    rule = (
        "nft add table inet t && nft add chain inet t input "
        "'{{ type filter hook input priority 0; }}' && "
        "nft add rule inet t input tcp dport $(sed -n 's/^port = //p' /etc/ledger/ledger.conf) drop"
    )
    found = broken_host(StateStore(tmp_path), inject=rule, alone=True)
    async with found as (episode, stage, finder):
        ending = await run_playbooks((), episode, stage, SETTINGS, finder)
        events = [each.event async for each in stage.bus.journal.read(run=stage.run)]
        left = await stage.environment.run("nft list ruleset", timeout=10.0)
    ended = next(each for each in events if isinstance(each, ExperimentsEnded))
    assert ended.status == "proved", ended.why
    assert ended.causes == ("packet-filter inet t input: tcp dport 5296 drop",)
    assert (ending.outcome, ending.answered_by) == ("resolved", "experiment")
    assert "chain input" in left.output
    assert "5296" not in left.output


async def test_an_incident_that_experiments_solved_becomes_a_drill(tmp_path: Path) -> None:
    store, folder = StateStore(tmp_path / "states"), tmp_path / "drill"
    async with broken_host(store) as (episode, stage, finder):
        ending = await run_playbooks((), episode, stage, SETTINGS, finder)
        assert (ending.outcome, ending.answered_by) == ("resolved", "experiment")
        details = build_case(stage.responder_context(episode))
        redact = Redactor({}).clean
        drill = await make_incident_drill(stage.bus.journal, store, details, folder, redact)
    assert "ledger.conf" in drill.spec.inject[0]
    proof = await prove_scenario(load_scenario(folder), 0)
    assert proof.ok, proof.problems


async def test_without_a_known_good_state_nothing_is_tried(tmp_path: Path) -> None:
    async with broken_host(StateStore(tmp_path), record=False) as (episode, stage, finder):
        ending = await run_playbooks((), episode, stage, SETTINGS, finder)
        events = [each.event async for each in stage.bus.journal.read(run=stage.run)]
    assert ending.outcome == "escalated"
    assert not [each for each in events if isinstance(each, ExperimentRan | ChangeBegan)]


async def test_killed_during_experiments_it_leaves_no_process(tmp_path: Path) -> None:
    """The process prints its first experiment, is killed, and its boxes and copies end."""
    command = [sys.executable, __file__, str(tmp_path)]
    with anyio.fail_after(240):
        async with await anyio.open_process(command, stderr=None) as program:
            assert program.stdout is not None
            assert (await program.stdout.receive()).startswith(b"experiment")
            children = set(_descendants(program.pid))
            assert children
            program.send_signal(signal.SIGKILL)
            await program.wait()
        while True:
            if not any(_runs(pid) for pid in children):
                break
            await anyio.sleep(0.05)


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found


def _runs(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


async def _run_until_killed(folder: Path) -> None:
    async with broken_host(StateStore(folder)) as (episode, stage, finder):

        async def show(event: object) -> None:
            if isinstance(event, ExperimentRan):
                os.write(1, b"experiment\n")

        async with anyio.create_task_group() as group:
            group.start_soon(run_playbooks, (), episode, stage, SETTINGS, finder)
            seen = 0
            while True:
                async for each in stage.bus.journal.read(run=stage.run, after=seen):
                    seen = each.seq
                    await show(each.event)
                await anyio.sleep(0.02)


if __name__ == "__main__":
    anyio.run(_run_until_killed, Path(sys.argv[1]))
