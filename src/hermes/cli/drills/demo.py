"""`hermes demo`: builds hosts, breaks them, and shows how they are fixed and reported."""

import shlex
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from hermes.cli import exit_codes
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_table
from hermes.memory.store import store_exists
from hermes.settings.load import load
from hermes.sre.reports.statements import cause_line, resolver_of

if TYPE_CHECKING:
    from hermes.app.drills.demo import DemoAct, DemoResult

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
hermes demo --keep ./demo --open    what is kept there, in the dashboard
hermes demo --model sonnet     a model handles what no playbook matches
""")
@click.option("--model", default="none", show_default=True, help="`none`: playbooks only.")
@click.option("--plain", is_flag=True, help="Plain lines instead of a live view.")
@click.option("--act", type=click.IntRange(1, 3), help="Show only this act.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the home of the demo here.")
@click.option(
    "--open",
    "show",
    is_flag=True,
    help="Open it in the dashboard; a demo that was kept is not run again.",
)
def demo(model: str, plain: bool, act: int | None, keep: Path | None, show: bool) -> int:
    """Show the main job on separate hosts that are removed at the end.

    The hosts are real: services under a supervisor, their own network, traffic. So are the watch,
    the rules, the journal and the checks. The end of each act shows who fixed it.
    """
    from hermes.app.drills.demo import DEMO_SCENARIO

    if show and keep is not None and store_exists(load(home=keep).store):
        return anyio.run(_open_dashboard, keep.absolute())
    from hermes.gym.episodes.readiness import check_readiness, missing_requirements
    from hermes.gym.scenario import find_scenario

    if missing := missing_requirements(find_scenario(DEMO_SCENARIO), check_readiness()):
        note(f"a host cannot be built here: {'; '.join(missing)}; see `hermes doctor`")
        return exit_codes.ENVIRONMENT
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        code = anyio.run(_run_demo, keep.absolute(), model, plain, act)
        if not show:
            echo(f"\nIn a browser: hermes demo --keep {shlex.quote(str(keep))} --open", bold=True)
        return anyio.run(_open_dashboard, keep.absolute()) if show else code
    with tempfile.TemporaryDirectory(prefix="hermes-demo-") as folder:
        code = anyio.run(_run_demo, Path(folder), model, plain, act)
        return anyio.run(_open_dashboard, Path(folder)) if show else code


async def _open_dashboard(home: Path) -> int:
    """Serve the dashboard of this home until Ctrl-C."""
    from hermes.app.people import user_name
    from hermes.app.web.dashboard import serve_dashboard

    def show_link(link: str) -> None:
        click.echo(link)  # flushed: a person waits for it
        note("open this link in a browser; Ctrl-C ends it")

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(serve_dashboard, load(home=home), user_name(), show_link)
            async for _ in signals:
                break
            group.cancel_scope.cancel()
    return exit_codes.OK


async def _run_demo(home: Path, model: str, plain: bool, only: int | None) -> int:
    from hermes.app.drills.demo import demo_acts, run_demo
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
    from hermes.app.drills.demo import RECENT_CHANGES_RULE
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
            ("answered by", *(each.by or resolver_of(each.incident).by for each in done)),
            ("model calls", *(str(each.model_calls) for each in done)),
            ("tokens", *(f"{each.tokens:,}" for each in done)),
            ("outcome", *(each.incident.status for each in done)),
        ],
    )
