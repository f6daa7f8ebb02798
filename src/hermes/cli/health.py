"""`hermes health`: every probe asked once, by hand."""

from pathlib import Path

import anyio
import click

from hermes.cli import exits
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, say, table
from hermes.cli.render_safe import clean, clip

STATES = {True: "fine", False: "FAILING", None: "unknown"}


@click.command(
    cls=Examples,
    examples="""
hermes health                          is anything wrong right now?
hermes health --all                    also what is fine
hermes health --json | jq .failing
""",
)
@click.option("--all", "everything", is_flag=True, help="Show every probe, not only the trouble.")
@json_option
@click.pass_context
def health(ctx: click.Context, everything: bool, as_json: bool) -> int:
    """Ask every probe once, say how things are, and write it down. Nothing is changed.

    Exit codes: 0 all is fine, 1 something fails or could not be asked.
    """
    from hermes.app.health import health_now

    checked, looked, asked = anyio.run(health_now, settings_for(ctx), Path.cwd())
    if as_json:
        probes = [{"probe": e.name, "ok": e.ok, "detail": e.detail} for e in looked]
        emit_json(
            {
                "ok": checked.ok,
                "failing": checked.failing,
                "unknown": checked.unknown,
                "refused": asked.refused,
                "seconds": checked.seconds,
                "probes": probes,
            }
        )
        return exits.OK if checked.ok else exits.FAILED
    shown = [each for each in looked if everything or not each.ok]
    if shown:
        rows = [(each.name, STATES[each.ok], clip(clean(each.detail), 80)) for each in shown]
        table(("probe", "state", "detail"), rows)
    fine = len(looked) - len(checked.failing) - len(checked.unknown)
    say(
        f"{fine} of {len(looked)} fine, {len(checked.failing)} failing, "
        f"{len(checked.unknown)} unknown ({checked.seconds:.1f} s)"
    )
    for each in asked.refused:
        note(f"not asked: {each}")
    if asked.found_now:
        note("no probes.yaml yet: these were found by a look around; `hermes watch --discover`")
    return exits.OK if checked.ok else exits.FAILED
