"""`hermes config`: shows, explains, checks and changes settings."""

import sys

import click

from hermes.cli import exit_codes
from hermes.cli.context import command_line_overrides, home_folder, load_settings
from hermes.cli.lazy import cli_command, cli_group
from hermes.cli.output import confirm, echo, note, print_fields, print_json, print_table
from hermes.core.errors import SettingsError
from hermes.settings.load import LoadedSettings

CONFIG_COMMANDS = {
    "view": ("admin.config:view", "All settings, and where each came from"),
    "get": ("admin.config:get", "One value, for scripts"),
    "explain": ("admin.config:explain", "What a key means and where it is set"),
    "check": ("admin.config:check", "Find errors and missing keys"),
    "path": ("admin.config:path", "Where the files are"),
    "set": ("admin.config:set_", "Set a key; secrets go to .env"),
    "unset": ("admin.config:unset", "Remove a key"),
    "edit": ("admin.config:edit", "Open config.yaml in your editor"),
    "migrate": ("admin.config:migrate", "Bring an old file up to date"),
}


@cli_group(
    CONFIG_COMMANDS,
    """
hermes config                                    all settings and where they came from
hermes config set model.default openai:gpt-4o    checked, and comments stay
hermes config set OPENROUTER_API_KEY             asks for it without showing it
hermes config explain agent.max_iterations       what it means, where it is set
""",
    default="view",
)
def config() -> None:
    """See, change, check and explain settings. Without a command: view.

    Later sources win: defaults, config.yaml, .env, environment variables, `hermes --set`.
    """


@cli_command("hermes config view --changed --json")
@click.option("--changed", is_flag=True, help="Leave out defaults.")
def view(ctx: click.Context, changed: bool, as_json: bool) -> None:
    """Show all settings, and where each value came from. Secrets are never shown."""
    from hermes.settings.describe import describe_settings

    loaded = load_settings(ctx)
    rows = [row for row in describe_settings(loaded) if row.source != "default" or not changed]
    secrets = _masked_secrets(loaded)
    if as_json:
        print_json({"home": loaded.home, "settings": rows, "secrets": secrets})
        return
    print_table(("key", "value", "from"), [(row.key, row.value, _origin_text(row)) for row in rows])
    if secrets:
        echo()
        print_table(("secret", "value"), list(secrets.items()))


@cli_command("hermes config get terminal.backend")
@click.argument("key")
def get(ctx: click.Context, key: str, as_json: bool) -> None:
    """Print the value of KEY; of a section, all its values."""
    from hermes.settings.describe import describe_settings
    from hermes.settings.variable_names import KEY_BY_VARIABLE

    rows = describe_settings(load_settings(ctx), KEY_BY_VARIABLE.get(key, key))
    if as_json:
        print_json(rows[0].value if rows[0].key == key else {row.key: row.value for row in rows})
    elif len(rows) == 1:
        print_plain(rows[0].value)
    else:
        print_fields({row.key: row.value for row in rows})


def print_plain(value: object) -> None:
    if isinstance(value, list):
        for item in value:
            print_plain(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        echo(str(value))
    else:
        print_json(value)


@cli_command("hermes config explain display.color")
@click.argument("key", required=False)
def explain(ctx: click.Context, key: str | None, as_json: bool) -> None:
    """Show the meaning, value, source and type of KEY. Without KEY: all."""
    from hermes.settings.describe import describe_settings
    from hermes.settings.variable_names import KEY_BY_VARIABLE

    rows = describe_settings(load_settings(ctx), KEY_BY_VARIABLE.get(key or "", key or ""))
    if as_json:
        print_json(rows)
        return
    for at, row in enumerate(rows):
        if at:
            echo()
        echo(row.key, bold=True)
        echo(f"  {row.about}")
        print_fields(
            {
                "  value": row.value,
                "  from": _origin_text(row),
                "  default": row.default,
                "  takes": row.type,
                "  variable": row.variables,
            }
        )


@cli_command("hermes config check && hermes")
def check(ctx: click.Context, as_json: bool) -> int:
    """Find errors, each with file, line and the nearest key; exit code 3 when there are any."""
    from hermes.settings.load import load_with_problems

    loaded, problems = load_with_problems(overrides=command_line_overrides(ctx))
    warnings = _setting_warnings(loaded) if loaded else []
    if as_json:
        found = [{"where": p.where, "what": p.cause, "hint": p.suggestion} for p in problems]
        print_json({"ok": not problems, "problems": found, "warnings": warnings})
    else:
        for warning in warnings:
            note(warning)
        for problem in problems:
            echo(str(problem))
        if not problems:
            echo(f"{home_folder()}: the settings are in order")
    return exit_codes.SETTINGS if problems else exit_codes.OK


@cli_command('cat "$(hermes config path config)"')
@click.argument("which", type=click.Choice(["home", "config", "env"]), required=False)
def path(which: str | None, as_json: bool) -> None:
    """Print where home, config.yaml and .env are."""
    paths = {
        "home": home_folder(),
        "config": home_folder() / "config.yaml",
        "env": home_folder() / ".env",
    }
    if as_json:
        print_json(paths)
    elif which:
        echo(str(paths[which]))
    else:
        print_fields(paths)


def _setting_warnings(loaded: LoadedSettings) -> list[str]:
    """Settings that are valid but probably not intended."""
    from hermes.core.plugins import plugin_names, suggest_plugin
    from hermes.models.catalog import resolve_reference

    found = [*loaded.warnings, *_engine_warnings(loaded)]
    backend = loaded.settings.terminal.backend
    if backend not in plugin_names("environments", loaded.home):
        hint = suggest_plugin("environments", backend, loaded.home)
        found.append(f"terminal.backend: there is no environment {backend!r}; {hint}")
    try:
        variable = resolve_reference("", loaded.settings.model).provider.key_variable
    except SettingsError as error:
        return [*found, f"model.default: {error}"]
    if variable and not loaded.secrets.get(variable):
        found.append(f"{variable} is not set; `hermes setup` asks for it")
    return found


def _engine_warnings(loaded: LoadedSettings) -> list[str]:
    from hermes.app.tools.availability import find_engine_problem

    settings = loaded.settings
    chosen = [("tools.web.search", name) for name in settings.tools.web.search]
    chosen += [("speech.provider", settings.speech.provider)]
    chosen += [("speech.speaker", settings.speech.speaker)]
    found = ((key, find_engine_problem(key, name, loaded.home)) for key, name in chosen)
    return [f"{key}: {problem}" for key, problem in found if problem]


def _refuse_unknown_engine(key: str, value: str) -> None:
    """Raises `SettingsError` for a name that no built-in and no plug-in has."""
    from hermes.app.tools.availability import ENGINE_GROUPS, find_engine_problem
    from hermes.settings.edit import key_path
    from hermes.settings.value_types import parse_value, type_at

    if key not in ENGINE_GROUPS:
        return
    path, root = key_path(key, home_folder())
    given = parse_value(value, type_at(root, path))
    for name in [given] if isinstance(given, str) else given:
        if problem := find_engine_problem(key, name, home_folder()):
            raise SettingsError(f"{key}: {problem}")


def _refuse_wrong_address(key: str, value: str) -> None:
    """Raises `SettingsError` now: with such an address no conversation would start."""
    section, _, rest = key.partition(".")
    name, _, field = rest.partition(".")
    if section == "systems" and field == "url":
        from hermes.app.systems import check_system_url

        check_system_url(name, value)


def _masked_secrets(loaded: LoadedSettings) -> dict[str, str]:
    """Secrets of this home and of known providers; not those of other programs."""
    from hermes.models.catalog import model_catalog
    from hermes.settings.secrets import mask_secret

    ours = loaded.secrets.kept | {p.key_variable for p in model_catalog().providers.values()}
    found = loaded.secrets.sensitive()
    return {name: mask_secret(found[name]) for name in sorted(ours & found.keys())}


def _origin_text(row: object) -> str:
    source, where = getattr(row, "source", ""), getattr(row, "where", "")
    return f"{source} ({where})" if where else source


@cli_command("""
hermes config set agent.max_iterations 30
hermes config set tools.toolsets file,terminal
hermes config set TELEGRAM_HOME_CHANNEL -1001234567890
hermes config set OPENROUTER_API_KEY               asks, without showing it
pass show openrouter | hermes config set OPENROUTER_API_KEY -
""")
@click.argument("key")
@click.argument("value", required=False)
def set_(key: str, value: str | None) -> None:
    """Set KEY to VALUE permanently. The type is checked first; comments in the file stay.

    Names in capitals are variables and go to .env (mode 0600). Without VALUE you are asked for it;
    `-` reads it from stdin.
    """
    from hermes.settings.edit import is_variable, key_path, set_value
    from hermes.settings.secrets import is_secret

    name, equals, rest = key.partition("=")
    if value is None and equals:
        raise click.UsageError(f"key and value are two words: hermes config set {name} {rest}")
    if not is_variable(key):
        key_path(key, home_folder())  # report a wrong key before asking for a value
    if value is None and sys.stdin.isatty():
        value = click.prompt(key, hide_input=is_secret(key), err=True)
    elif value is None or value == "-":
        value = sys.stdin.read().strip()
    if not value:
        raise click.UsageError(f"no value for {key}; `hermes config unset {key}` removes it")
    _refuse_unknown_engine(key, value)
    _refuse_wrong_address(key, value)
    file = set_value(home_folder(), key, value)
    echo(f"{key} set in {file}")


# Values may begin with a hyphen: ids of groups in Telegram are negative numbers.
set_.context_settings["ignore_unknown_options"] = True


@cli_command("hermes config unset display.color")
@click.argument("key")
def unset(key: str) -> None:
    """Remove KEY from its file, so that the default applies again."""
    from hermes.settings.edit import unset_value

    removed = unset_value(home_folder(), key)
    echo(f"{key} removed" if removed else f"{key} was not set")


@cli_command("EDITOR=nano hermes config edit")
@click.option("--env", "which", flag_value=".env", help="Edit .env instead.")
@click.option("--config", "which", flag_value="config.yaml", default=True, hidden=True)
def edit(which: str) -> int:
    """Open config.yaml in $EDITOR. It is checked afterwards; errors can be fixed at once."""
    from hermes.settings.files import lock_settings, replace_text
    from hermes.settings.load import load_with_problems

    file = home_folder() / which
    if not file.exists():
        with lock_settings(home_folder()):
            first = "# Secrets: NAME=value\n" if which == ".env" else "_config_version: 1\n"
            replace_text(file, first, private=True)
    while True:
        click.edit(filename=str(file))
        problems = [p for p in load_with_problems()[1] if p.where.startswith(str(home_folder()))]
        if not problems:
            echo(f"{file}: in order")
            return exit_codes.OK
        for problem in problems:
            note(str(problem))
        if not sys.stdin.isatty() or not confirm("Edit again?", default=True):
            return exit_codes.SETTINGS


@cli_command("hermes config migrate --check")
@click.option("--check", "only_check", is_flag=True, help="Show what would change; write nothing.")
def migrate(only_check: bool) -> int:
    """Rewrite config.yaml of an earlier version. Comments stay; a backup is kept beside it."""
    from hermes.settings.edit import migrate_config
    from hermes.settings.load import load_with_problems

    loaded, problems = load_with_problems()
    if only_check:
        for line in (*(loaded.warnings if loaded else ()), *map(str, problems)):
            echo(line)
        return exit_codes.SETTINGS if problems else exit_codes.OK
    moved, backup = migrate_config(home_folder())
    if backup is None:
        echo("config.yaml is up to date")
        return exit_codes.OK
    for line in moved:
        echo(line)
    echo(f"done; the previous file is {backup}")
    left = load_with_problems()[1]
    if left:
        raise SettingsError("\n".join(map(str, left)))
    return exit_codes.OK
