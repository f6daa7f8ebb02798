"""`hermes incident`: what went wrong, what was done about it, and how long it took."""

import click

from hermes.cli.lazy import ExampleGroup
from hermes.cli.output import json_option

TABLE = {
    "list": ("hermes.cli.incident_list:list_", "The latest incidents, or those still open"),
    "show": ("hermes.cli.incident_list:show", "One in full: cause, changes, checks, times"),
    "timeline": ("hermes.cli.incident_story:timeline", "What happened in one, moment by moment"),
    "report": ("hermes.cli.incident_story:report", "The report of one, as Markdown"),
    "watch": ("hermes.cli.incident_watch:watch", "The work on one, live"),
    "open": ("hermes.cli.incident_desk:open_", "Say that something is wrong"),
    "ack": ("hermes.cli.incident_desk:ack", "Say that you have seen it"),
    "close": ("hermes.cli.incident_desk:close", "End one, with your reason"),
    "reopen": ("hermes.cli.incident_desk:reopen", "It was not over after all"),
    "stats": ("hermes.cli.incident_stats:stats", "How many, how long, with and without skills"),
}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    invoke_without_command=True,
    examples="""
hermes incident                                   the latest
hermes incident list --open --severity P1
hermes incident show last
hermes incident report 4f2a1c > report.md
hermes incident open "the shop shows old prices" --service shop --severity P2
hermes incident close last --reason "a cable was out"
hermes incident stats --svg mttr.svg
""",
)
@json_option
@click.pass_context
def incident(ctx: click.Context, as_json: bool) -> None:
    """List, show, open and close incidents. Without a command: list.

    ID is the id of an incident, its beginning or end, or `last`.

    Exit codes: 0 fine, 1 there is no such incident, 2 wrong usage, 6 the store failed.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.incident_list import list_

        ctx.invoke(list_, as_json=as_json)
