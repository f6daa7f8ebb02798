"""`hermes skills verify`."""

import anyio
import click

from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, note
from hermes.cli.skills_exchange import as_data, exchange_for, show_examined
from hermes.core.errors import PolicyDenied


@click.command(
    cls=Examples, examples="hermes skills verify my.skill\nhermes skills verify x.skill --json"
)
@click.argument("bundle")
@click.option("--no-sandbox", is_flag=True, help="Read it only; run nothing.")
@json_option
@click.pass_context
def verify(ctx: click.Context, bundle: str, no_sandbox: bool, as_json: bool) -> None:
    """Check BUNDLE, a file or an address, as an import would, and take nothing in."""
    exchange = exchange_for(ctx)
    gate = exchange.gatehouse(
        (lambda _: None) if as_json else note, sandbox=not no_sandbox, prove=False
    )

    async def work() -> list[bytes]:
        return [data async for data in exchange.gather(bundle)]

    found = [anyio.run(gate.examine, data) for data in anyio.run(work)]
    if as_json:
        emit_json([as_data(each) for each in found])
    else:
        for each in found:
            show_examined(each)
    if any(each.blocked for each in found):
        raise PolicyDenied("it would not be taken in; what was found is above")
