"""`hermes version`, `update`, `uninstall` and `completion`: this installation and its shells."""

import json
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

import hermes
from hermes import __version__
from hermes.cli import exit_codes
from hermes.cli.context import home_folder
from hermes.cli.lazy import cli_command
from hermes.cli.output import confirm, echo, note, print_fields, print_json
from hermes.core.errors import HermesError, SettingsError
from hermes.settings import process_environment
from hermes.settings.files import unwritable_error

DISTRIBUTION_NAME = "hermes-oncall"
FORMER_DISTRIBUTION_NAME = "hermes"
"""Installations before the rename. Another project has this name on the public index."""
FORMER_COMMAND_TARGET = "hermes.cli.main:main"
InstallationKind = Literal["checkout", "repository", "pipx", "uv tool", "package", "unknown"]


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    kind: InstallationKind
    location: str
    update: tuple[tuple[str, ...], ...] = ()
    """Commands that install the latest version; empty when unknown."""
    remove: tuple[str, ...] = ()


def find_installation() -> Installation:
    location = str(Path(hermes.__file__).parent)
    found = _find_distribution()
    if found is None:
        return Installation(kind="unknown", location=location)
    prefix = Path(sys.prefix).parts
    if "pipx" in prefix:
        return _tool_installation("pipx", ("pipx",), found, location)
    if "uv" in prefix and "tools" in prefix:
        return _tool_installation("uv tool", ("uv", "tool"), found, location)
    return _package_installation(found, location)


def _find_distribution() -> Distribution | None:
    """The package that brought the command `hermes` of this project."""
    with suppress(PackageNotFoundError):
        return distribution(DISTRIBUTION_NAME)
    with suppress(PackageNotFoundError):
        former = distribution(FORMER_DISTRIBUTION_NAME)
        if any(each.value == FORMER_COMMAND_TARGET for each in former.entry_points):
            return former
    return None


def _tool_installation(
    kind: InstallationKind, tool: tuple[str, ...], found: Distribution, location: str
) -> Installation:
    name, origin = found.name, _origin(found)
    # From a file, an upgrade would install the same file again.
    from_file = bool(origin) and "vcs_info" not in origin
    update = () if from_file else ((*tool, "upgrade", name),)
    remove = (*tool, "uninstall", name)
    return Installation(kind=kind, location=location, update=update, remove=remove)


def _origin(found: Distribution) -> dict[str, Any]:
    """Where it was installed from, if not from an index."""
    origin: dict[str, Any] = json.loads(found.read_text("direct_url.json") or "{}")
    return origin


def _package_installation(found: Distribution, location: str) -> Installation:
    pip = _pip_command(found)
    remove = (*pip, "uninstall", *(() if pip[0] == "uv" else ("-y",)), found.name)
    origin = _origin(found)
    folder = str(origin.get("url", "")).removeprefix("file://")
    if origin.get("dir_info", {}).get("editable"):
        steps: list[tuple[str, ...]] = [(*pip, "install", "--upgrade", "-e", folder)]
        if (Path(folder) / ".git").exists():
            steps.insert(0, ("git", "-C", folder, "pull", "--ff-only"))
        return Installation(kind="checkout", location=folder, update=tuple(steps), remove=remove)
    if "vcs_info" in origin:
        source = f"{DISTRIBUTION_NAME} @ {origin['vcs_info'].get('vcs', 'git')}+{origin['url']}"
        update = (*pip, "install", "--upgrade", source)
        return Installation(kind="repository", location=location, update=(update,), remove=remove)
    if origin:  # from a local wheel or folder: the source of the next one is unknown
        return Installation(kind="package", location=location, remove=remove)
    update = (*pip, "install", "--upgrade", DISTRIBUTION_NAME)
    return Installation(kind="package", location=location, update=(update,), remove=remove)


def _pip_command(found: Distribution) -> tuple[str, ...]:
    if (found.read_text("INSTALLER") or "").strip() == "uv":
        return ("uv", "pip")
    return (sys.executable, "-m", "pip")


LISTED_LIBRARIES = (
    "anyio",
    "apsw",
    "click",
    "httpx2",
    "msgspec",
    "prompt_toolkit",
    "rich",
    "xllamacpp",
)


@cli_command("hermes version --json | jq -r .version")
def version(as_json: bool) -> None:
    """Show the version, how it was installed, and what it runs on."""
    from hermes.settings.config_file import CONFIG_VERSION

    installation = find_installation()
    facts = {
        "version": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "installed": f"{installation.kind} in {installation.location}",
        "home": str(home_folder()),
        "config version": CONFIG_VERSION,
    }
    libraries = {name: found for name in LISTED_LIBRARIES if (found := _installed_version(name))}
    if as_json:
        print_json(
            {name.replace(" ", "_"): v for name, v in facts.items()} | {"libraries": libraries}
        )
    else:
        print_fields(facts | {"libraries": ", ".join(f"{n} {v}" for n, v in libraries.items())})


def _installed_version(name: str) -> str | None:
    try:
        return version_of(name)
    except PackageNotFoundError:
        return None


@cli_command("""
hermes update            shows the commands, and asks
hermes update --yes      runs it
hermes update --json     only shows them
""")
@click.option("--yes", is_flag=True, help="Do not ask.")
def update(ctx: click.Context, yes: bool, as_json: bool) -> int:
    """Install the latest version the way this copy was installed, then check for old settings.

    Nothing is downloaded before you confirm.
    """
    installation = find_installation()
    if as_json:
        print_json(installation)
        return exit_codes.OK
    echo(f"This is a {installation.kind}: {installation.location}")
    if not installation.update:
        note(_manual_instructions(installation))
        return exit_codes.FAILED
    for command in installation.update:
        echo(f"  {shlex.join(command)}")
    if not yes and not confirm("Run this now?"):
        return exit_codes.OK
    for command in installation.update:
        code = subprocess.run(command).returncode  # noqa: TID251 - our own installation, not an environment
        if code:
            note(f"{shlex.join(command)} ended with {code}; stopped")
            return exit_codes.FAILED
    return _offer_migration(ctx, yes)


def _manual_instructions(installation: Installation) -> str:
    if installation.kind == "unknown":
        return "It was not installed as a package: update the folder it runs from."
    return "It came from a file: install the next file the way you installed this one."


def _offer_migration(ctx: click.Context, yes: bool) -> int:
    from hermes.cli.admin.config import migrate
    from hermes.settings.load import load_with_problems

    loaded, problems = load_with_problems()
    for line in (*(loaded.warnings if loaded else ()), *map(str, problems)):
        note(line)
    old = loaded and any("config migrate" in warning for warning in loaded.warnings)
    if old and (yes or confirm("Rewrite config.yaml now? A backup is kept.", default=True)):
        ctx.invoke(migrate, only_check=False)
    echo("Up to date.")
    return exit_codes.SETTINGS if problems else exit_codes.OK


CONFIGURATION_FILES = ("config.yaml", ".env")
HOME_MARKER_FILES = ("config.yaml", "journal.db", ".settings.lock")
FOREIGN_MARKER_FILES = (".git", ".ssh", ".bashrc", ".profile", "pyproject.toml")


@cli_command("""
hermes uninstall                  the program only; your home folder stays
hermes uninstall --keep-config    conversations go, config.yaml and .env stay
hermes uninstall --all --yes      everything, without asking
""")
@click.option("--keep-config", is_flag=True, help="Delete the home, except config.yaml and .env.")
@click.option("--all", "everything", is_flag=True, help="Delete the whole home.")
@click.option("--keep-program", is_flag=True, help="Leave the program, only clear the home.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
def uninstall(
    keep_config: bool, everything: bool, keep_program: bool, yes: bool, dry_run: bool, as_json: bool
) -> int:
    """Remove Hermes from this machine. It lists what is removed, and asks first."""
    if keep_config and everything:
        raise click.UsageError("--keep-config and --all contradict each other")
    removals = _paths_in_home(home_folder(), everything) if keep_config or everything else []
    removals += [] if keep_program else installed_completion_files()
    command = () if keep_program else find_installation().remove
    if as_json:
        print_json({"delete": removals, "run": command})
        return exit_codes.OK
    if not removals and not command:
        echo("There is nothing to remove.")
        return exit_codes.OK
    _print_removals(removals, command)
    if dry_run or not (yes or confirm("Go ahead?")):
        return exit_codes.OK
    for path in removals:
        _delete_path(path)
    if command:
        return subprocess.run(command).returncode  # noqa: TID251 - our own installation, not an environment
    echo("Done.")
    return exit_codes.OK


def _print_removals(removals: Sequence[Path], command: Sequence[str]) -> None:
    for path in removals:
        echo(f"delete  {path}")
    if command:
        echo(f"run     {shlex.join(command)}")
    if home_folder().exists() and home_folder() not in removals:
        note(f"{home_folder()} stays, with everything not listed here")


def _paths_in_home(folder: Path, everything: bool) -> list[Path]:
    if not folder.exists():
        return []
    refuse = _refusal_reason(folder.resolve())
    if refuse:
        raise SettingsError(f"{folder} is not deleted: {refuse}. Check HERMES_HOME.")
    if everything:
        return [folder]
    return sorted(path for path in folder.iterdir() if path.name not in CONFIGURATION_FILES)


def _refusal_reason(folder: Path) -> str:
    """A wrong HERMES_HOME must not delete other files of the user."""
    if folder in (Path.home(), *Path.home().parents) or folder in Path.cwd().parents:
        return "it contains much more than Hermes"
    if not folder.is_dir():
        return "it is not a folder"
    if not any((folder / marker).exists() for marker in HOME_MARKER_FILES):
        return "it does not look like a Hermes home"
    foreign = next((name for name in FOREIGN_MARKER_FILES if (folder / name).exists()), "")
    return f"there is a {foreign} in it" if foreign else ""


def _delete_path(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise HermesError(
            f"{error.filename or path} could not be deleted: {error.strerror}"
        ) from error


SUPPORTED_SHELLS = ("bash", "zsh", "fish")
COMPLETION_VARIABLE = "_HERMES_COMPLETE"


@cli_command("""
eval "$(hermes completion bash)"        for this shell only
hermes completion zsh --install         permanently
""")
@click.argument("shell", type=click.Choice(SUPPORTED_SHELLS), required=False)
@click.option("--install", is_flag=True, help="Install it for this user.")
def completion(shell: str | None, install: bool) -> None:
    """Print the completion script for SHELL; without SHELL, for the one you use."""
    shell = shell or _current_shell()
    script = completion_script(shell)
    if not install:
        echo(script)
        return
    file = completion_files()[shell]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(script + "\n", encoding="utf-8")
    except OSError as error:
        raise unwritable_error(file, error) from error
    echo(f"written to {file}; open a new shell")
    if shell == "zsh":
        echo(f"to enable it, put `fpath+=({file.parent})` before `compinit` in ~/.zshrc")


def completion_script(shell: str) -> str:
    from click.shell_completion import get_completion_class

    from hermes.cli.root_command import root

    kind = get_completion_class(shell)
    assert kind is not None
    return kind(root, {}, "hermes", COMPLETION_VARIABLE).source()


def completion_files() -> dict[str, Path]:
    """The completion file of each shell for a single user."""
    variables = process_environment.environment_variables()
    data = Path(variables.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    config = Path(variables.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return {
        "bash": data / "bash-completion/completions/hermes",
        "zsh": Path.home() / ".zfunc/_hermes",
        "fish": config / "fish/completions/hermes.fish",
    }


def installed_completion_files() -> list[Path]:
    return [file for file in completion_files().values() if file.exists()]


def _current_shell() -> str:
    shell = Path(process_environment.environment_variables().get("SHELL", "")).name
    if shell not in SUPPORTED_SHELLS:
        raise click.UsageError(
            f"your shell is not known; name one of {', '.join(SUPPORTED_SHELLS)}"
        )
    return shell
