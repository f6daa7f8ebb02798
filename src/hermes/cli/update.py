"""`hermes update`: says how to get the latest version, and does it when told to."""

import shlex
import subprocess

import click

from hermes.cli import exits
from hermes.cli.installation import Installation, installation
from hermes.cli.lazy import Examples
from hermes.cli.output import confirm, emit_json, json_option, note, say


@click.command(
    cls=Examples,
    examples="""
hermes update            says what would be run, and asks
hermes update --yes      runs it
hermes update --json     only says it
""",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_context
def update(ctx: click.Context, yes: bool, as_json: bool) -> int:
    """Get the latest version the way this copy was installed, then look for old settings.

    Nothing is downloaded before you say yes.
    """
    here = installation()
    if as_json:
        emit_json(here)
        return exits.OK
    say(f"This is a {here.kind}: {here.location}")
    if not here.update:
        note(_by_hand(here))
        return exits.FAILED
    for command in here.update:
        say(f"  {shlex.join(command)}")
    if not yes and not confirm("Run this now?"):
        return exits.OK
    for command in here.update:
        code = subprocess.run(command).returncode  # noqa: TID251 - our own installation, no place
        if code:
            note(f"{shlex.join(command)} ended with {code}; nothing further was done")
            return exits.FAILED
    return _migrate(ctx, yes)


def _by_hand(here: Installation) -> str:
    if here.kind == "unknown":
        return "It was not installed as a package: update the folder it runs from."
    return "It came from a file: install the next file the way you installed this one."


def _migrate(ctx: click.Context, yes: bool) -> int:
    from hermes.cli.config_change import migrate
    from hermes.settings.load import examine

    loaded, problems = examine()
    for line in (*(loaded.warnings if loaded else ()), *map(str, problems)):
        note(line)
    old = loaded and any("config migrate" in warning for warning in loaded.warnings)
    if old and (yes or confirm("Rewrite config.yaml now? A backup is kept.", default=True)):
        ctx.invoke(migrate, only_check=False)
    say("Up to date.")
    return exits.SETTINGS if problems else exits.OK
