"""`hermes health`: every probe asked once, by hand; services that need not run are forgotten."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from hermes.cli import exit_codes
from hermes.cli.context import load_settings
from hermes.cli.lazy import CommandWithExamples, GroupWithExamples
from hermes.cli.output import echo, json_option, note, print_json, print_table
from hermes.cli.render.terminal_text import clean, clip

if TYPE_CHECKING:
    from hermes.app.health import AdmittedProbes
    from hermes.core.events.operations import HealthChecked
    from hermes.sre.health import HealthCheckResult

PROBE_STATES = {True: "fine", False: "FAILING", None: "unknown"}
HEALTH_COMMANDS = {
    "forget": ("hermes.cli.monitoring.health:forget", "Stop expecting a service that need not run")
}


@click.group(
    cls=GroupWithExamples,
    table=HEALTH_COMMANDS,
    invoke_without_command=True,
    examples="""
hermes health                          is anything wrong right now?
hermes health --all                    also what is fine
hermes health --json | jq .failing
hermes health forget redis-server      it was removed on purpose
""",
)
@click.option("--all", "everything", is_flag=True, help="Show every probe, not only the trouble.")
@json_option
@click.pass_context
def health(ctx: click.Context, everything: bool, as_json: bool) -> int:
    """Ask every probe once, say how things are, and write it down. Nothing is changed.

    A service that ran before and does not run now is expected, and fails. What only a person can
    know, such as a server that is installed and was never seen running, is a question.

    Exit codes: 0 everything that is asked is fine (questions do not change that), 1 something
    fails, is expected and not seen, or could not be asked (a journal that cannot be written is
    such a failure), 3 a broken setting or probes.yaml, 5 the environment takes no commands.
    """
    if ctx.invoked_subcommand is not None:
        return exit_codes.OK
    from hermes.app.health import check_health_now

    checked, looked, asked = anyio.run(check_health_now, load_settings(ctx), Path.cwd())
    if as_json:
        print_json(_health_data(checked, looked, asked))
    else:
        _print_health(checked, looked, asked, everything)
    return exit_codes.OK if checked.ok else exit_codes.FAILED


def _health_data(
    checked: "HealthChecked", looked: "Sequence[HealthCheckResult]", asked: "AdmittedProbes"
) -> dict[str, object]:
    return {
        "ok": checked.ok,
        "failing": checked.failing,
        "unknown": checked.unknown,
        "missing": asked.missing,
        "questions": [{"service": e.service, "text": e.text} for e in asked.questions],
        "refused": asked.refused,
        "seconds": checked.seconds,
        "probes": [{"probe": e.name, "ok": e.ok, "detail": e.detail} for e in looked],
    }


def _print_health(
    checked: "HealthChecked",
    looked: "Sequence[HealthCheckResult]",
    asked: "AdmittedProbes",
    everything: bool,
) -> None:
    shown = [each for each in looked if everything or not each.ok]
    if shown:
        rows = [(each.name, PROBE_STATES[each.ok], clip(clean(each.detail), 140)) for each in shown]
        print_table(("probe", "state", "detail"), rows)
    fine = len(looked) - len(checked.failing) - len(checked.unknown)
    echo(
        f"{fine} of {len(looked)} fine, {len(checked.failing)} failing, "
        f"{len(checked.unknown)} unknown ({checked.seconds:.1f} s)"
    )
    for name, why in asked.missing.items():
        echo(f"not running: {clean(name)}, {clean(why)}")
    for each in asked.questions:
        echo(f"question: {clean(each.text)}")
    for refusal in asked.refused:
        note(f"not asked: {refusal}")
    if asked.found_now:
        note("no probes.yaml yet: these were found by a look around; `hermes watch --discover`")


@click.command(
    cls=CommandWithExamples,
    examples="""
hermes health forget redis-server      it was removed on purpose
hermes health forget nginx             it is installed and need not run
""",
)
@click.argument("service")
@json_option
@click.pass_context
def forget(ctx: click.Context, service: str, as_json: bool) -> int:
    """Stop expecting SERVICE, and stop asking about it. A running watch follows within a minute.

    Nothing is stopped or removed. When the service is seen running again it is expected again.

    Exit codes: 0 it was expected and is not any more, 1 no service of that name was known.
    """
    from hermes.app.health import forget_service

    known = anyio.run(forget_service, load_settings(ctx), Path.cwd(), service)
    if as_json:
        print_json({"service": service, "known": known})
    elif known:
        echo(f"{service} is not expected any more")
    else:
        echo(f"no service {service} was expected here; it is not asked about from now on")
    return exit_codes.OK if known else exit_codes.FAILED
