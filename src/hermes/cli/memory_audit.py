"""`hermes memory audit`: is what is remembered worth remembering?"""

from datetime import UTC, datetime

import click

from hermes.cli import exits
from hermes.cli.facts import Desk, at_desk
from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, note, table
from hermes.cli.render_safe import clip
from hermes.memory.facts.audit import Finding
from hermes.memory.facts.audit import audit as look_through


@click.command(cls=Examples, examples="hermes memory audit\nhermes memory audit --json --exit-code")
@click.option("--exit-code", is_flag=True, help="1 when something was found.")
@json_option
@click.pass_context
def audit(ctx: click.Context, exit_code: bool, as_json: bool) -> int:
    """Find duplicates, contradictions, recall loops, unsupported quotes, secrets and old facts.

    A recall loop is a fact that rests on text which was itself recalled; a quote is unsupported
    when the events it names do not hold it. Nothing is changed.
    """

    async def look(desk: Desk) -> list[Finding]:
        facts, now = desk.keeper.facts, datetime.now(UTC)
        return await look_through(facts, desk.journal, redact=desk.redact, now=now)

    found = at_desk(ctx, look)
    if as_json:
        emit_json(found)
    elif found:
        rows = [(one.problem, one.facts, clip(one.said, 90)) for one in found]
        table(("problem", "facts", "what"), rows)
    else:
        note("nothing to complain about")
    return exits.FAILED if found and exit_code else exits.OK
