"""`hermes health`: every probe asked once, by hand; services that need not run are forgotten."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from hermes.cli import exits
from hermes.cli.lazy import ExampleGroup, Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, say, table
from hermes.cli.render_safe import clean, clip

if TYPE_CHECKING:
    from hermes.app.health import Asked
    from hermes.core.events.watching import HealthChecked
    from hermes.sre.health import Looked

STATES = {True: "fine", False: "FAILING", None: "unknown"}
TABLE = {"forget": ("hermes.cli.health:forget", "Stop expecting a service that need not run")}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
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
        return exits.OK
    from hermes.app.health import health_now

    checked, looked, asked = anyio.run(health_now, settings_for(ctx), Path.cwd())
    if as_json:
        emit_json(_as_json(checked, looked, asked))
    else:
        _show(checked, looked, asked, everything)
    return exits.OK if checked.ok else exits.FAILED


def _as_json(
    checked: "HealthChecked", looked: "Sequence[Looked]", asked: "Asked"
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


def _show(
    checked: "HealthChecked", looked: "Sequence[Looked]", asked: "Asked", everything: bool
) -> None:
    shown = [each for each in looked if everything or not each.ok]
    if shown:
        rows = [(each.name, STATES[each.ok], clip(clean(each.detail), 140)) for each in shown]
        table(("probe", "state", "detail"), rows)
    fine = len(looked) - len(checked.failing) - len(checked.unknown)
    say(
        f"{fine} of {len(looked)} fine, {len(checked.failing)} failing, "
        f"{len(checked.unknown)} unknown ({checked.seconds:.1f} s)"
    )
    for name, why in asked.missing.items():
        say(f"not running: {clean(name)}, {clean(why)}")
    for each in asked.questions:
        say(f"question: {clean(each.text)}")
    for refusal in asked.refused:
        note(f"not asked: {refusal}")
    if asked.found_now:
        note("no probes.yaml yet: these were found by a look around; `hermes watch --discover`")


@click.command(
    cls=Examples,
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

    known = anyio.run(forget_service, settings_for(ctx), Path.cwd(), service)
    if as_json:
        emit_json({"service": service, "known": known})
    elif known:
        say(f"{service} is not expected any more")
    else:
        say(f"no service {service} was expected here; it is not asked about from now on")
    return exits.OK if known else exits.FAILED
