"""The half of `hermes config` that writes."""

import sys

import click

from hermes.cli import exits
from hermes.cli.lazy import Examples
from hermes.cli.loading import home
from hermes.cli.output import confirm, note, say
from hermes.core.errors import SettingsError


@click.command(
    "set",
    cls=Examples,
    examples="""
hermes config set agent.max_iterations 30
hermes config set tools.toolsets file,terminal
hermes config set OPENROUTER_API_KEY               asks, without showing it
pass show openrouter | hermes config set OPENROUTER_API_KEY -
""",
)
@click.argument("key")
@click.argument("value", required=False)
def set_(key: str, value: str | None) -> None:
    """Set KEY to VALUE for good. The type is checked first and comments in the file stay.

    Names in capitals are variables and go to .env (mode 0600); leave VALUE out and you are asked,
    give `-` and it is read from stdin.
    """
    from hermes.settings.change import is_variable, path_of, set_value
    from hermes.settings.secrets import is_secret

    if not is_variable(key):
        path_of(key)  # a wrong key is said before anybody types a value
    if value is None and sys.stdin.isatty():
        value = click.prompt(key, hide_input=is_secret(key), err=True)
    elif value is None or value == "-":
        value = sys.stdin.read().strip()
    if not value:
        raise click.UsageError(f"no value for {key}; `hermes config unset {key}` takes it out")
    file = set_value(home(), key, value)
    say(f"{key} set in {file}")


@click.command(cls=Examples, examples="hermes config unset display.color")
@click.argument("key")
def unset(key: str) -> None:
    """Take KEY out of its file, so that the default counts again."""
    from hermes.settings.change import unset_value

    there = unset_value(home(), key)
    say(f"{key} taken out" if there else f"{key} was not set")


@click.command(cls=Examples, examples="EDITOR=nano hermes config edit")
@click.option("--env", "which", flag_value=".env", help="Edit .env instead.")
@click.option("--config", "which", flag_value="config.yaml", default=True, hidden=True)
def edit(which: str) -> int:
    """Open config.yaml in $EDITOR. It is checked afterwards; a mistake can be mended at once."""
    from hermes.settings.files import locked, replace_text
    from hermes.settings.load import examine

    file = home() / which
    if not file.exists():
        with locked(home()):
            first = "# Secrets: NAME=value\n" if which == ".env" else "_config_version: 1\n"
            replace_text(file, first, mode=0o600)
    while True:
        click.edit(filename=str(file))
        problems = [p for p in examine()[1] if p.where.startswith(str(home()))]
        if not problems:
            say(f"{file}: in order")
            return exits.OK
        for problem in problems:
            note(str(problem))
        if not sys.stdin.isatty() or not confirm("Edit again?", default=True):
            return exits.SETTINGS


@click.command(cls=Examples, examples="hermes config migrate --check")
@click.option("--check", "only_check", is_flag=True, help="Say what would move; write nothing.")
def migrate(only_check: bool) -> int:
    """Rewrite config.yaml of an earlier version. Comments stay; a backup is kept beside it."""
    from hermes.settings import edit as editing
    from hermes.settings.load import examine

    loaded, problems = examine()
    if only_check:
        for line in (*(loaded.warnings if loaded else ()), *map(str, problems)):
            say(line)
        return exits.SETTINGS if problems else exits.OK
    moved, backup = editing.migrate(home())
    if backup is None:
        say("config.yaml is up to date")
        return exits.OK
    for line in moved:
        say(line)
    say(f"done; the file as it was is {backup}")
    left = examine()[1]
    if left:
        raise SettingsError("\n".join(map(str, left)))
    return exits.OK
