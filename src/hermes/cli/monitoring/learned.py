"""`hermes health learned`: lists learned checks, switches them off, and records false alarms."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from hermes.cli import exit_codes
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json, print_table
from hermes.cli.render.terminal_text import clean, clip

if TYPE_CHECKING:
    from hermes.app.checks.learned_checks import LearnedMark
    from hermes.sre.probes.learned.state import LearnedCheck


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
