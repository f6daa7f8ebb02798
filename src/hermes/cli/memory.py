"""`hermes memory`: what is known from earlier sessions, who says so, and since when."""

import click

from hermes.cli.lazy import ExampleGroup
from hermes.cli.output import json_option

TABLE = {
    "list": ("hermes.cli.memory_read:list_", "What is known, the latest confirmed first"),
    "show": ("hermes.cli.memory_read:show", "One fact with its sources"),
    "history": ("hermes.cli.memory_read:history", "What became of a fact, or of all of them"),
    "add": ("hermes.cli.memory_write:add", "Note a fact yourself"),
    "share": ("hermes.cli.memory_share:share", "Let the team hear of a fact; --stop ends it"),
    "forget": ("hermes.cli.memory_write:forget", "Take facts out of recall, search and lists"),
    "learn": ("hermes.cli.memory_learn:learn", "Learn from sessions that were not learned from"),
    "audit": ("hermes.cli.memory_audit:audit", "Doubles, echoes, bad quotes, secrets, old rows"),
    "export": ("hermes.cli.memory_exchange:export", "Write facts as lines of JSON"),
    "import": ("hermes.cli.memory_exchange:import_", "Read facts of another home; trusted less"),
}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    invoke_without_command=True,
    examples="""
hermes memory list --about nginx
hermes memory show fact-1a2b3c
hermes memory add "the deploy window is Friday 14:00"
hermes memory share fact-1a2b3c
hermes memory forget fact-1a2b3c
hermes memory audit
hermes memory export > facts.jsonl
""",
)
@json_option
@click.pass_context
def memory(ctx: click.Context, as_json: bool) -> None:
    """What is known from earlier sessions. Without a command: list.

    A fact is episodic (what happened), semantic (what is so) or declarative (a manual), says where
    it comes from and who vouches for it, and ends when another takes its place. FACT is an id or
    the beginning of one.

    The two files that every session begins with, MEMORY.md and USER.md, lie in the home folder:
    edit them as you like.
    """
    if ctx.invoked_subcommand is None:
        from hermes.cli.memory_read import list_

        ctx.invoke(list_, as_json=as_json)
