"""`hermes plugins list`, `show` and `doctor`."""

from pathlib import Path

import click

from hermes.app.plugins import PluginOverview, list_plugins
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_fields, print_json, print_table
from hermes.cli.render.terminal_text import clean
from hermes.core.errors import SettingsError
from hermes.plumbing.problems import suggest_name

NO_PLUGINS = "no plug-ins; see docs/how-to/plugins.md"


@cli_command("""
hermes plugins list
hermes plugins list --json
""")
def list_(ctx: click.Context, as_json: bool) -> None:
    """List packages and files that bring plug-ins, and what each brings."""
    found = list_plugins(load_settings(ctx).home)
    if as_json:
        print_json(found)
        return
    rows = [
        (each.name, each.kind, part.group, part.name, part.status, clean(part.why))
        for each in found
        for part in each.parts
    ]
    if rows:
        print_table(("from", "kind", "group", "name", "status", "why"), rows)
    else:
        echo(NO_PLUGINS)


def _find_plugin(name: str, found: list[PluginOverview]) -> PluginOverview | None:
    """By its own name, otherwise by that of one of its parts."""
    for each in found:
        if name in (each.name, each.origin, Path(each.origin).name):
            return each
    return next((each for each in found if name in {part.name for part in each.parts}), None)


@cli_command("""
hermes plugins show hermes-example
hermes plugins show example --json
hermes plugins show uptime        which package or file brings it
""")
@click.argument("name")
def show(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show one package or file: its parts, what it needs, and whether it can be loaded."""
    found = list_plugins(load_settings(ctx).home)
    one = _find_plugin(name, found)
    if one is None:
        known = [each.name for each in found]
        raise SettingsError(f"no plug-in {name!r}; {suggest_name(name, known) or NO_PLUGINS}")
    if as_json:
        print_json(one)
        return
    print_fields(
        {
            "name": one.name,
            "kind": one.kind,
            "from": one.origin,
            "version": one.version,
            "summary": clean(one.summary),
            "needs": ", ".join(one.needs),
            "missing": ", ".join(one.missing),
        }
    )
    rows = [
        (each.group, each.name, each.target, each.status, clean(each.why)) for each in one.parts
    ]
    print_table(("group", "name", "target", "status", "why"), rows)


@cli_command("""
hermes plugins doctor
hermes plugins doctor --json
""")
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Load every plug-in and say what is wrong, and with whom. Exit code 3 when something is."""
    found = list_plugins(load_settings(ctx).home)
    wrong = [each for each in found if each.problems]
    if as_json:
        print_json([{"name": each.name, "problems": each.problems} for each in found])
    else:
        _print_problems(found)
    if wrong:
        names = ", ".join(each.name for each in wrong)
        raise SettingsError(f"not all plug-ins can be used: {names}; correct or remove them")


def _print_problems(found: list[PluginOverview]) -> None:
    for each in found:
        count = len([part for part in each.parts if part.status == "ok"])
        echo(clean(f"{each.name}: {count} of {len(each.parts)} can be used"))
        for problem in each.problems:
            echo(clean(f"  {problem}"))
    if not found:
        echo(NO_PLUGINS)
