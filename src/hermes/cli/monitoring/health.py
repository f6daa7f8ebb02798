"""`hermes health`: runs every probe once. `hermes health forget`: stops expecting a service."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from hermes.cli import exit_codes
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command, cli_group
from hermes.cli.monitoring.learned import learned_data, print_unreported
from hermes.cli.output import echo, note, print_json, print_table
from hermes.cli.render.terminal_text import clean, clip

if TYPE_CHECKING:
    from hermes.app.checks.probes import AdmittedProbes
    from hermes.core.events.operations import HealthChecked
    from hermes.sre.health import HealthCheckResult

PROBE_STATES = {True: "fine", False: "FAILING", None: "unknown"}
HEALTH_COMMANDS = {
    "forget": ("monitoring.health:forget", "Stop expecting a service that need not run"),
    "learned": ("monitoring.learned:learned", "Checks learned from healthy behaviour"),
}


@cli_group(
    HEALTH_COMMANDS,
    """
hermes health                          is anything wrong right now?
hermes health --all                    also what is fine
hermes health --json | jq .failing
hermes health forget redis-server      it was removed on purpose
hermes health learned                  checks that were learned, and why
""",
)
@click.option("--all", "everything", is_flag=True, help="Show every probe, not only problems.")
def health(ctx: click.Context, everything: bool, as_json: bool) -> int:
    """Run every probe once, print and record the results. Nothing is changed.

    A service that ran before and does not run now counts as failing, and so does a learned check
    that a running watch reports. What only a person can know, for example whether an installed
    server should run, is listed as a question.

    Exit codes: 0 every probe is fine (questions do not change that), 1 a probe fails, an expected
    service is missing, or a probe could not run (also when the journal cannot be written), 3 a
    broken setting or probes.yaml, 5 the environment does not run commands.
    """
    if ctx.invoked_subcommand is not None:
        return exit_codes.OK
    from hermes.app.checks.health import check_health_now

    checked, results, admitted = anyio.run(check_health_now, load_settings(ctx), Path.cwd())
    if as_json:
        print_json(_health_data(checked, results, admitted))
    else:
        _print_health(checked, results, admitted, everything)
    return exit_codes.OK if checked.ok else exit_codes.FAILED


def _health_data(
    checked: "HealthChecked", results: "Sequence[HealthCheckResult]", admitted: "AdmittedProbes"
) -> dict[str, object]:
    return {
        "ok": checked.ok,
        "failing": checked.failing,
        "unknown": checked.unknown,
        "missing": admitted.missing,
        "questions": [{"service": e.service, "text": e.text} for e in admitted.questions],
        "refused": admitted.refused,
        "seconds": checked.seconds,
        "probes": [{"probe": e.name, "ok": e.ok, "detail": e.detail} for e in results],
        "learned": [
            learned_data(each)
            for each in admitted.learned
            if each.failing or not each.on or each.weight < 1.0
        ],
    }


def _print_health(
    checked: "HealthChecked",
    results: "Sequence[HealthCheckResult]",
    admitted: "AdmittedProbes",
    everything: bool,
) -> None:
    shown = [each for each in results if everything or not each.ok]
    if shown:
        rows = [(each.name, PROBE_STATES[each.ok], clip(clean(each.detail), 140)) for each in shown]
        print_table(("probe", "state", "detail"), rows)
    fine = len(results) - len(checked.failing) - len(checked.unknown)
    echo(
        f"{fine} of {len(results)} fine, {len(checked.failing)} failing, "
        f"{len(checked.unknown)} unknown ({checked.seconds:.1f} s)"
    )
    for name, why in admitted.missing.items():
        echo(f"not running: {clean(name)}, {clean(why)}")
    for each in admitted.questions:
        echo(f"question: {clean(each.text)}")
    print_unreported(admitted.learned)
    for refusal in admitted.refused:
        note(f"not run: {refusal}")
    if admitted.found_now:
        note("no probes.yaml yet: these probes were discovered; see `hermes watch --discover`")


@cli_command("""
hermes health forget redis-server      it was removed on purpose
hermes health forget nginx             it is installed and need not run
""")
@click.argument("service")
def forget(ctx: click.Context, service: str, as_json: bool) -> int:
    """Stop expecting SERVICE, and stop asking about it. A running watch follows within a minute.

    Nothing is stopped or removed. When the service runs again, it is expected again.

    Exit codes: 0 the service is no longer expected, 1 there was no such service.
    """
    from hermes.app.checks.health import forget_service

    known = anyio.run(forget_service, load_settings(ctx), Path.cwd(), service)
    if as_json:
        print_json({"service": service, "known": known})
    elif known:
        echo(f"{service} is no longer expected")
    else:
        echo(f"no service {service} was expected here; it is not asked about from now on")
    return exit_codes.OK if known else exit_codes.FAILED
