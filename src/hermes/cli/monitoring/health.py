"""`hermes health`: runs every probe once, stops expecting a service, and marks learned checks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from hermes.cli import exit_codes
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command, cli_group
from hermes.cli.output import echo, note, print_json, print_table
from hermes.cli.render.terminal_text import clean, clip

if TYPE_CHECKING:
    from hermes.app.checks.learned_checks import LearnedMark
    from hermes.app.checks.probes import AdmittedProbes
    from hermes.core.events.operations import HealthChecked
    from hermes.sre.health import HealthCheckResult
    from hermes.sre.probes.learned.state import LearnedCheck

PROBE_STATES = {True: "fine", False: "FAILING", None: "unknown"}
HEALTH_COMMANDS = {
    "forget": ("monitoring.health:forget", "Stop expecting a service that need not run"),
    "learned": ("monitoring.health:learned", "Checks learned from healthy behaviour"),
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


@cli_command("""
hermes health learned                                                list them, with the reasons
hermes health learned learned-http-8080-shape                        one of them in full
hermes health learned learned-http-8080-shape --false-alarm          this was right: learn it
hermes health learned learned-http-8080-latency --off                raise no more alerts
hermes health learned learned-http-8080-latency --on                 with its full weight again
""")
@click.argument("name", required=False, default="")
@click.option("--off", "mark", flag_value="off", help="Raise no more alerts; it stays listed.")
@click.option("--on", "mark", flag_value="on", help="Raise alerts again, with full weight.")
@click.option(
    "--false-alarm",
    "mark",
    flag_value="false-alarm",
    help="What it reports is right: learn it, and halve its weight.",
)
def learned(ctx: click.Context, name: str, mark: "LearnedMark | None", as_json: bool) -> int:
    """List the checks that were learned while services were healthy, or change one of them.

    A check with less weight reports later, and only as P3; below a weight of 0.3 it raises no alert
    and is only listed. A running watch follows within a minute.

    Exit codes: 0 done, 1 no check has this name, 2 a mark without a name.
    """
    from hermes.app.checks.learned_checks import list_learned_checks, mark_learned_check

    loaded = load_settings(ctx)
    if mark and not name:
        raise click.UsageError("which check? `hermes health learned` lists their names")
    if mark:
        changed = anyio.run(mark_learned_check, loaded, Path.cwd(), name, mark)
        found = [changed] if changed is not None else []
    else:
        known = anyio.run(list_learned_checks, loaded, Path.cwd())
        found = [each for each in known if name in ("", each.name)]
    if as_json:
        print_json({"checks": [learned_data(each) for each in found]})
    elif found:
        _print_checks(found, in_full=bool(name))
    if not found and name:
        note(f"no learned check is named {name}; `hermes health learned` lists their names")
        return exit_codes.FAILED
    if not found and not as_json:
        echo("nothing is learned yet: a watch needs some hours in which services are healthy")
    return exit_codes.OK


def learned_data(check: "LearnedCheck") -> dict[str, object]:
    return {
        "check": check.name,
        "service": check.service,
        "measure": check.measure,
        "reason": check.reason,
        "reports": check.band,
        "weight": check.weight,
        "on": check.on,
        "alerts": check.reports,
        "false_alarms": check.false_alarms,
        "failing": check.failing,
        "detail": check.detail,
    }


def state_text(check: "LearnedCheck") -> str:
    if not check.on:
        return "off"
    if check.failing:
        return "FAILING" if check.reports else "failing, no alert"
    if not check.band:
        return "learning"
    return "fine" if check.reports else "no alert"


def _print_checks(checks: "Sequence[LearnedCheck]", *, in_full: bool) -> None:
    if not in_full:
        rows = [
            (each.name, state_text(each), f"{each.weight:g}", clip(clean(each.reason), 120))
            for each in checks
        ]
        print_table(("check", "state", "weight", "reason"), rows)
        return
    for each in checks:
        echo(f"{each.name}: {state_text(each)}, weight {each.weight:g}")
        echo(f"learned: {clean(each.reason)}")
        echo(f"reports: {clean(each.band) or 'nothing yet, it is still learning'}")
        if each.detail:
            echo(f"deviates: {clean(each.detail)}")
        if each.false_alarms:
            echo(f"false alarms: {each.false_alarms}")


def print_unreported(checks: "Sequence[LearnedCheck]") -> None:
    """What a person switched off or marked: it never disappears from the output of health."""
    for each in checks:
        if not each.on or each.weight < 1.0:
            more = f"; it deviates: {clean(each.detail)}" if each.failing else ""
            weight = "off" if not each.on else f"weight {each.weight:g}"
            alerts = "" if each.reports else ", raises no alert"
            echo(f"learned check {each.name}: {weight}{alerts}{more}")
