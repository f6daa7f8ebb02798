"""`hermes config`: see, explain, check and change what is set."""

import click

from hermes.cli import exits
from hermes.cli.lazy import ExampleGroup, Examples
from hermes.cli.loading import home, overrides_of, settings_for
from hermes.cli.output import emit_json, fields, json_option, note, say, table
from hermes.core.errors import SettingsError
from hermes.settings.load import Loaded

TABLE = {
    "view": ("hermes.cli.config:view", "All settings, and where each came from"),
    "get": ("hermes.cli.config:get", "One value, for scripts"),
    "explain": ("hermes.cli.config:explain", "What a key means and who set it"),
    "check": ("hermes.cli.config:check", "Find mistakes and missing keys"),
    "path": ("hermes.cli.config:path", "Where the files are"),
    "set": ("hermes.cli.config_change:set_", "Set a key; secrets go to .env"),
    "unset": ("hermes.cli.config_change:unset", "Take a key out again"),
    "edit": ("hermes.cli.config_change:edit", "Open config.yaml in your editor"),
    "migrate": ("hermes.cli.config_change:migrate", "Bring an old file up to date"),
}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    invoke_without_command=True,
    examples="""
hermes config                                    all settings and where they came from
hermes config set model.default openai:gpt-4o    checked, and comments stay
hermes config set OPENROUTER_API_KEY             asks for it without showing it
hermes config explain agent.max_iterations       what it means, who set it
""",
)
@json_option
@click.pass_context
def config(ctx: click.Context, as_json: bool) -> None:
    """See, change, check and explain settings. Without a command: view.

    Later sources win: defaults, config.yaml, .env, environment variables, `hermes --set`.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(view, as_json=as_json, changed=False)


@click.command(cls=Examples, examples="hermes config view --changed --json")
@click.option("--changed", is_flag=True, help="Leave out what is as it was shipped.")
@json_option
@click.pass_context
def view(ctx: click.Context, changed: bool, as_json: bool) -> None:
    """Show all settings, and where each value came from. Secrets are never shown."""
    from hermes.settings.describe import described

    loaded = settings_for(ctx)
    rows = [row for row in described(loaded) if row.source != "default" or not changed]
    secrets = _masked(loaded)
    if as_json:
        emit_json({"home": loaded.home, "settings": rows, "secrets": secrets})
        return
    table(("key", "value", "from"), [(row.key, row.value, _from(row)) for row in rows])
    if secrets:
        say()
        table(("secret", "value"), list(secrets.items()))


@click.command(cls=Examples, examples="hermes config get terminal.backend")
@click.argument("key")
@json_option
@click.pass_context
def get(ctx: click.Context, key: str, as_json: bool) -> None:
    """Print the value of KEY; of a section, all its values."""
    from hermes.settings.describe import described
    from hermes.settings.variables import KEYS

    rows = described(settings_for(ctx), KEYS.get(key, key))
    if as_json:
        emit_json(rows[0].value if rows[0].key == key else {row.key: row.value for row in rows})
    elif len(rows) == 1:
        emit_plain(rows[0].value)
    else:
        fields({row.key: row.value for row in rows})


def emit_plain(value: object) -> None:
    if isinstance(value, list):
        for item in value:
            emit_plain(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        say(str(value))
    else:
        emit_json(value)


@click.command(cls=Examples, examples="hermes config explain display.color")
@click.argument("key", required=False)
@json_option
@click.pass_context
def explain(ctx: click.Context, key: str | None, as_json: bool) -> None:
    """Say what KEY means, what it is set to, by whom, and how to set it. Without KEY: all."""
    from hermes.settings.describe import described
    from hermes.settings.variables import KEYS

    rows = described(settings_for(ctx), KEYS.get(key or "", key or ""))
    if as_json:
        emit_json(rows)
        return
    for at, row in enumerate(rows):
        if at:
            say()
        say(row.key, bold=True)
        say(f"  {row.about}")
        fields(
            {
                "  value": row.value,
                "  from": _from(row),
                "  default": row.default,
                "  takes": row.type,
                "  variable": row.variables,
            }
        )


@click.command(cls=Examples, examples="hermes config check && hermes")
@json_option
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> int:
    """Find mistakes, each with file, line and the nearest key; exit code 3 when there are any."""
    from hermes.settings.load import examine

    loaded, problems = examine(overrides=overrides_of(ctx))
    warnings = _doubts(loaded) if loaded else []
    if as_json:
        emit_json({"ok": not problems, "problems": problems, "warnings": warnings})
    else:
        for warning in warnings:
            note(warning)
        for problem in problems:
            say(str(problem))
        if not problems:
            say(f"{home()}: the settings are in order")
    return exits.SETTINGS if problems else exits.OK


@click.command(cls=Examples, examples='cat "$(hermes config path config)"')
@click.argument("which", type=click.Choice(["home", "config", "env"]), required=False)
@json_option
def path(which: str | None, as_json: bool) -> None:
    """Print where home, config.yaml and .env are."""
    paths = {"home": home(), "config": home() / "config.yaml", "env": home() / ".env"}
    if as_json:
        emit_json(paths)
    elif which:
        say(str(paths[which]))
    else:
        fields(paths)


def _doubts(loaded: Loaded) -> list[str]:
    """Nothing wrong, and yet not what somebody probably wants."""
    from hermes.core.plugins import names
    from hermes.models.reference import resolve
    from hermes.settings.variables import WAITING

    found = list(loaded.warnings)
    for name, why in WAITING.items():
        if loaded.secrets.get(name):
            found.append(f"{name} has no effect: {why}")
    backend = loaded.settings.terminal.backend
    if backend not in names("environments"):
        there = ", ".join(names("environments"))
        found.append(f"terminal.backend: there is no place {backend!r} to work; there are: {there}")
    try:
        variable = resolve("", loaded.settings.model).provider.key_variable
    except SettingsError as error:
        return [*found, f"model.default: {error}"]
    if variable and not loaded.secrets.get(variable):
        found.append(f"{variable} is not set; `hermes setup` asks for it")
    return found


def _masked(loaded: Loaded) -> dict[str, str]:
    """Our own secrets and those a provider would use; not those of other programs."""
    from hermes.models.catalogue import catalogue
    from hermes.settings.secrets import mask

    ours = loaded.secrets.kept | {p.key_variable for p in catalogue().providers.values()}
    found = loaded.secrets.sensitive()
    return {name: mask(found[name]) for name in sorted(ours & found.keys())}


def _from(row: object) -> str:
    source, where = getattr(row, "source", ""), getattr(row, "where", "")
    return f"{source} ({where})" if where else source
