"""`hermes demo`: builds hosts, breaks them, and shows how they are fixed and reported."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from hermes.cli import exit_codes
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_table
from hermes.settings.load import load
from hermes.sre.reports.statements import cause_line, resolver_of

if TYPE_CHECKING:
    from hermes.app.demo import DemoAct, DemoResult

DEMO_SETTINGS = {
    "sre.verify.window": "3",
    "sre.verify.every": "0.5",
    "sre.triage.group.delay": "0.1",
}
"""A verification window that is long enough to watch and not too long to wait for."""


@cli_command("""
hermes demo                    no key, no network; it does not change this machine
hermes demo --plain            lines instead of a live view
hermes demo --act 3            only this one: which of eight edits broke the service?
hermes demo --keep ./demo      keep its home folder: journal, reports
hermes demo --model sonnet     a model handles what no playbook matches
""")
@click.option("--model", default="none", show_default=True, help="`none`: playbooks only.")
@click.option("--plain", is_flag=True, help="Plain lines instead of a live view.")
@click.option("--act", type=click.IntRange(1, 3), help="Show only this act.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the home of the demo here.")
def demo(model: str, plain: bool, act: int | None, keep: Path | None) -> int:
    """Show the main job on separate hosts that are removed at the end.

    The hosts are real: services under a supervisor, their own network, traffic. So are the watch,
    the rules, the journal and the checks. The end of each act shows who fixed it.
    """
    from hermes.app.demo import DEMO_SCENARIO
    from hermes.gym.episodes.readiness import check_readiness, missing_requirements
    from hermes.gym.scenario import find_scenario

    if missing := missing_requirements(find_scenario(DEMO_SCENARIO), check_readiness()):
        note(f"a host cannot be built here: {'; '.join(missing)}; see `hermes doctor`")
        return exit_codes.ENVIRONMENT
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        return anyio.run(_run_demo, keep.absolute(), model, plain, act)
    with tempfile.TemporaryDirectory(prefix="hermes-demo-") as folder:
        return anyio.run(_run_demo, Path(folder), model, plain, act)


async def _run_demo(home: Path, model: str, plain: bool, only: int | None) -> int:
    from hermes.app.demo import demo_acts, run_demo
    from hermes.cli.incidents.watch import show_demo_incidents

    loaded, done = load(home=home, overrides=DEMO_SETTINGS), []
    for number, act in enumerate(demo_acts(), start=1):
        if only not in (None, number):
            continue
        echo(f"\n{number}. {act.title}", bold=True)
        print_edits(act)
        done.append(await run_demo(loaded, act, model, show_demo_incidents(plain=plain)))
        print_round(done[-1])
    echo(f"\nThe report of the last one ({done[-1].incident.report_path}):\n", bold=True)
    echo(done[-1].incident.report, dim=True)
    print_comparison(done)
    return exit_codes.OK if all(each.resolved for each in done) else exit_codes.FAILED


def print_edits(act: "DemoAct") -> None:
    """The edits of the person, and the rule that lets the demo revert one of them."""
    from hermes.app.demo import RECENT_CHANGES_RULE
    from hermes.gym.eight_edits import PERSON

    if not act.edits:
        return
    files = len({each.path for each in act.edits})
    echo(f"{PERSON} makes {len(act.edits)} edits in {files} files; one of them breaks the service:")
    for each in act.edits:
        echo(f"  {each.path}: {each.before} → {each.after}", dim=True)
    echo(
        f"Rule {RECENT_CHANGES_RULE}: in this box a person's recent change may be reverted. On"
        " your hosts Hermes asks first (declared.respect_people: 4 hours)."
    )


def print_round(done: "DemoResult") -> None:
    incident = done.incident
    echo(f"\nThe fault on {done.host}, which the watch does not know: {done.broken}")
    heading, cause = cause_line(incident)
    echo(f"Diagnosis: {heading}: {cause}")
    echo(f"Fixed by: {responder_text(done)}")
    echo(
        f"{'✓' if done.resolved else '✗'} independent check: "
        f"{'; '.join(done.oracle) or 'it is still broken'}"
    )


def responder_text(done: "DemoResult") -> str:
    answered = resolver_of(done.incident).by
    if answered == "playbook":
        return f"the playbook {done.by}, which comes with Hermes; no model was asked"
    if answered == "experiment":
        return "experiments on copies of the host; no playbook matched, no model was asked"
    if answered == "model":
        return f"a model, in {done.model_calls} calls and {done.tokens:,} tokens"
    return "no one: it was escalated to people"


def print_comparison(done: Sequence["DemoResult"]) -> None:
    echo("")
    print_table(
        ("since it was broken", *(f"{each.host}" for each in done)),
        [
            ("noticed", *(f"{each.noticed:.1f} s" for each in done)),
            ("fix applied", *(f"{each.applied:.1f} s" for each in done)),
            ("verified and reported", *(f"{each.ended:.1f} s" for each in done)),
            ("answered by", *(each.by or "–" for each in done)),
            ("model calls", *(str(each.model_calls) for each in done)),
            ("tokens", *(f"{each.tokens:,}" for each in done)),
            ("outcome", *(each.incident.status for each in done)),
        ],
    )
