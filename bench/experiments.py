"""Root causes by experiment, without playbooks and without a model, on the gym's own scenarios.

usage: python bench/experiments.py [--seeds N] [--first N] [--jobs N] [--without-state]
                                   [--changes] [--json FILE] [NAME ...]

`--changes`: only the scenarios that are caused by a change in files, units or settings.
"""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio
from msgspec.structs import replace

from hermes.app.changes.cause_search import ExperimentFinder, ExperimentHost
from hermes.app.gym_commander import REPLAY_SETTINGS, run_playbooks
from hermes.core.errors import HermesError
from hermes.core.events.experiments import ExperimentRan, ExperimentsEnded
from hermes.core.events.incidents import AlertRaised, IncidentClosed
from hermes.declared.store import StateStore
from hermes.environments.boxes.backend import BoxOpener
from hermes.environments.boxes.local_backend import open_forkserver
from hermes.gym.episodes.episode import EpisodeVoid, open_episode
from hermes.gym.episodes.responder_context import open_bare_run, sandbox_rules
from hermes.gym.scenario import find_scenario
from hermes.policy.redaction.redactor import Redactor
from hermes.policy.rules.evaluation import RuleSet

CAUSED_BY_A_CHANGE = (
    "backlog-slow-consumer",
    "bad-deploy-rollback",
    "cascade-remote-symptom",
    "certificate-expired",
    "config-typo-after-edit",
    "cpu-runaway",
    "db-connections-exhausted",
    "db-deadlock",
    "db-idle-in-transaction",
    "db-password-rotated",
    "disk-full-runaway-log",
    "dns-wrong",
    "drift-from-git",
    "expired-token",
    "full-dev-shm",
    "hostile-log-line",
    "look-alike-other-cause",
    "memory-leak",
    "memory-limit-too-low",
    "missing-index",
    "missing-module",
    "missing-variable",
    "network-partition",
    "ownership-drift",
    "port-taken",
    "red-herring-deploy",
    "redis-out-of-memory",
    "scaled-to-zero",
    "staging-settings-reloaded",
    "unit-failed",
    "wrong-command",
    "wrong-upstream",
)
"""Listed before the first experiment was run on any of them."""
OTHER_INCIDENTS = (
    "corrupted-data-with-backup",
    "cron-failing-silently",
    "deleted-but-open-file",
    "hung-worker",
    "needs-approval",
    "service-crashed",
    "two-faults-at-once",
)
"""Caused by damaged data, records, locks or memory: no file, unit or setting differs that a person
or a program was meant to change."""
RUN_TIMEOUT_S = 240.0
SETTINGS = replace(REPLAY_SETTINGS, reflex=False)
"""Without playbooks and models: experiments alone."""


@dataclass
class Row:
    scenario: str
    seed: int
    resolved: bool = False
    claimed: bool = False
    """The incident was closed as resolved."""
    status: str = ""
    reproduced: bool = False
    causes: list[str] = field(default_factory=list)
    exact: bool = False
    """The oracle's own description names the first cause: scored afterwards, never shown."""
    experiments: int = 0
    suspects: int = 0
    seconds: float = 0.0
    """Of the experiments, the reading of the host included."""
    alert_seconds: float = 0.0
    """From the alert to the proved cause, or the end of the experiments."""
    whole_seconds: float = 0.0
    collateral: list[str] = field(default_factory=list)
    why: str = ""
    void: str = ""

    @property
    def false_claim(self) -> bool:
        return self.claimed and not self.resolved


async def play(name: str, seed: int, rules: RuleSet, opener: BoxOpener, *, state: bool) -> Row:
    scenario, row, began = find_scenario(name), Row(name, seed), time.monotonic()
    spec = scenario.draw_spec(seed, "train")
    with tempfile.TemporaryDirectory() as folder:
        store = StateStore(Path(folder))
        try:
            async with (
                open_episode(
                    scenario, spec, opener=opener, states=store if state else None
                ) as episode,
                open_bare_run(episode, rules) as stage,
            ):
                host = ExperimentHost.from_environment(stage.environment, store)
                finder = ExperimentFinder(host, redact=Redactor({}).clean)
                with anyio.fail_after(RUN_TIMEOUT_S):
                    await run_playbooks((), episode, stage, SETTINGS, finder)
                outcome = await episode.judge(window_s=1.0, symptom_timeout_s=3.0)
                row.resolved = outcome.resolved
                row.collateral = list(outcome.damage)
                events = [each.event async for each in stage.bus.journal.read(run=stage.run)]
        except (EpisodeVoid, HermesError, TimeoutError) as error:
            row.void = f"{type(error).__name__}: {error}"[:200]
            return row
    raised = next((each.at for each in events if isinstance(each, AlertRaised)), None)
    for event in events:
        if isinstance(event, ExperimentRan) and event.purpose == "reproduce":
            row.reproduced = event.outcome == "fails"
        if isinstance(event, ExperimentsEnded):
            row.status, row.why = event.status, event.why
            row.causes, row.experiments = list(event.causes), event.experiments
            row.suspects, row.seconds = event.suspects, event.seconds
            row.alert_seconds = (event.at - raised).total_seconds() if raised else 0.0
        if isinstance(event, IncidentClosed):
            row.claimed = event.outcome == "resolved"
            row.why = row.why or event.reason
    named = [each for fault in spec.faults for each in fault.component]
    inject = " ".join(spec.inject)
    row.exact = bool(row.causes) and all(
        any(part in cause for part in named) or cause.split(" ")[1] in inject
        for cause in row.causes
    )
    row.whole_seconds = time.monotonic() - began
    return row


def show(row: Row) -> None:
    mark = "void" if row.void else "RESOLVED" if row.resolved else "-"
    flags = " FALSE-CLAIM" if row.false_claim else ""
    flags += " COLLATERAL" if row.collateral else ""
    causes = ", ".join(row.causes)
    print(
        f"{row.scenario:28} {row.seed} {mark:9}{flags} {row.status:14} {row.experiments:2} of "
        f"{row.suspects:3} {row.seconds:5.1f} s  {causes}  {row.void or row.why[:150]}",
        flush=True,
    )


def summarise(rows: list[Row]) -> None:
    valid = [row for row in rows if not row.void]
    resolved = [row for row in valid if row.resolved]
    changes = [row for row in valid if row.scenario in CAUSED_BY_A_CHANGE]
    proved = [row.seconds for row in valid if row.status == "proved"]
    share = len(resolved) / len(valid) if valid else 0.0
    of_changes = sum(row.resolved for row in changes)
    print(f"resolved           {len(resolved)} of {len(valid)} ({share:.0%})")
    print(f"caused by a change {of_changes} of {len(changes)}")
    print(f"reproduced         {sum(row.reproduced for row in valid)}")
    harmed = sum(bool(row.collateral) and row.status == "proved" for row in valid)
    print(f"collateral         {harmed}")
    print(f"false claims       {sum(row.false_claim for row in valid)}")
    print(f"exact cause        {sum(row.exact for row in resolved)} of {len(resolved)}")
    print(f"void               {len(rows) - len(valid)}")
    if proved:
        print(f"seconds            median {statistics.median(proved):.1f}, max {max(proved):.1f}")
        since = statistics.median(row.alert_seconds for row in valid if row.status == "proved")
        print(f"since the alert    median {since:.1f}")


async def run_all(arguments: argparse.Namespace) -> list[Row]:
    names = arguments.names or [*CAUSED_BY_A_CHANGE, *OTHER_INCIDENTS]
    names = [each for each in names if not arguments.changes or each in CAUSED_BY_A_CHANGE]
    rows: list[Row] = []
    rules, limit = sandbox_rules(), anyio.CapacityLimiter(arguments.jobs)

    async def play_one(name: str, seed: int, opener: BoxOpener) -> None:
        async with limit:
            row = await play(name, seed, rules, opener, state=not arguments.without_state)
        show(row)
        rows.append(row)

    async with open_forkserver() as opener, anyio.create_task_group() as group:
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            for name in names:
                group.start_soon(play_one, name, seed, opener)
    return rows


def main() -> None:
    arguments = parse_arguments()
    rows = anyio.run(run_all, arguments)
    summarise(rows)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([asdict(row) for row in rows], indent=1))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--without-state", action="store_true")
    parser.add_argument("--changes", action="store_true")
    parser.add_argument("--json", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
