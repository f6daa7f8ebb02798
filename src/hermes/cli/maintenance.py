"""`hermes maintenance`: when people work on something, the watch looks away from it."""

import click

from hermes.cli.lazy import ExampleGroup
from hermes.cli.output import json_option

TABLE = {
    "add": ("hermes.cli.maintenance_desk:add", "Look away from something for a while"),
    "list": ("hermes.cli.maintenance_desk:list_", "Windows that are open or still to come"),
    "end": ("hermes.cli.maintenance_desk:end", "End one before its time"),
}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    invoke_without_command=True,
    examples="""
hermes maintenance add --for 1h web
hermes maintenance add --for 30m --from 22:00 'db-*' --reason "new disks"
hermes maintenance add --for 2h team=payments
hermes maintenance list
hermes maintenance end web
""",
)
@json_option
@click.pass_context
def maintenance(ctx: click.Context, as_json: bool) -> None:
    """Alerts of what is being worked on are kept and not acted upon. Without a command: list.

    What still fires when a window ends opens an incident then.

    Exit codes: 0 fine, 1 there is no such window, 2 wrong usage, 6 the store failed.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.maintenance_desk import list_

        ctx.invoke(list_, as_json=as_json)
