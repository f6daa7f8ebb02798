"""`hermes approvals`: what waits for a person, answered from any terminal of this home."""

import click

from hermes.cli.lazy import ExampleGroup
from hermes.cli.output import json_option

TABLE = {
    "list": ("hermes.cli.approvals_list:list_", "What waits for an answer"),
    "show": ("hermes.cli.approvals_list:show", "One question in full"),
    "approve": ("hermes.cli.approvals_answer:approve", "Say yes"),
    "deny": ("hermes.cli.approvals_answer:deny", "Say no"),
    "stop": ("hermes.cli.approvals_answer:stop", "Keep an announced action from being done"),
    "watch": ("hermes.cli.approvals_list:watch", "Show questions as they come"),
    "grants": ("hermes.cli.approvals_grants:grants", "What may be done again without asking"),
    "revoke": ("hermes.cli.approvals_grants:revoke", "Take such a leave back"),
}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    invoke_without_command=True,
    examples="""
hermes approvals                                  what waits
hermes approvals show ask-20260306-031500-4f2a1c  in full: effects, rule, undo, who may answer
hermes approvals approve 4f2a1c --session         yes, and the same again in this session
hermes approvals deny --note "use the replica"    no to the only one that waits; the agent is told
hermes approvals watch                            follow along
""",
)
@json_option
@click.pass_context
def approvals(ctx: click.Context, as_json: bool) -> None:
    """Answer what a rule wants a person to be asked about. Without a command: list.

    ID is the id of a question, or its beginning or end; it may be left out when only one waits.
    You answer as the user you are logged in as. Where a rule names who may approve, whoever
    started the run may not approve it; no answer in time is a no.

    Exit codes: 0 fine, 1 there is no such question, 2 wrong usage, 7 your answer does not count.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.approvals_list import list_

        ctx.invoke(list_, as_json=as_json)
