"""`hermes uninstall`: takes Hermes off this machine, and says beforehand what goes."""

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import click

from hermes.cli import exits
from hermes.cli.completion import installed_files
from hermes.cli.installation import installation
from hermes.cli.lazy import Examples
from hermes.cli.loading import home
from hermes.cli.output import confirm, emit_json, json_option, note, say
from hermes.core.errors import HermesError, SettingsError

CONFIGURATION = ("config.yaml", ".env")
SIGNS = ("config.yaml", "journal.db", ".settings.lock")
NOT_OURS = (".git", ".ssh", ".bashrc", ".profile", "pyproject.toml")


@click.command(
    cls=Examples,
    examples="""
hermes uninstall                  the program only; your home folder stays
hermes uninstall --keep-config    conversations go, config.yaml and .env stay
hermes uninstall --all --yes      everything, without asking
""",
)
@click.option("--keep-config", is_flag=True, help="Delete the home, but for config.yaml and .env.")
@click.option("--all", "everything", is_flag=True, help="Delete the whole home.")
@click.option("--keep-program", is_flag=True, help="Leave the program, only clear the home.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@json_option
def uninstall(
    keep_config: bool,
    everything: bool,
    keep_program: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Take Hermes off this machine. What goes is listed first; nothing goes without a yes."""
    if keep_config and everything:
        raise click.UsageError("--keep-config and --all contradict each other")
    goes = _in_home(home(), everything) if keep_config or everything else []
    goes += [] if keep_program else installed_files()
    command = () if keep_program else installation().remove
    if as_json:
        emit_json({"delete": goes, "run": command})
        return exits.OK
    if not goes and not command:
        say("There is nothing to take away.")
        return exits.OK
    _announce(goes, command)
    if dry_run or not (yes or confirm("Go ahead?")):
        return exits.OK
    for path in goes:
        _delete(path)
    if command:
        return subprocess.run(command).returncode  # noqa: TID251 - our own installation, no place
    say("Done.")
    return exits.OK


def _announce(goes: Sequence[Path], command: Sequence[str]) -> None:
    for path in goes:
        say(f"delete  {path}")
    if command:
        say(f"run     {shlex.join(command)}")
    if home().exists() and home() not in goes:
        note(f"{home()} stays, with what is not named here")


def _in_home(folder: Path, everything: bool) -> list[Path]:
    if not folder.exists():
        return []
    refuse = _why_not(folder.resolve())
    if refuse:
        raise SettingsError(f"{folder} is not deleted: {refuse}. Look at HERMES_HOME.")
    if everything:
        return [folder]
    return sorted(path for path in folder.iterdir() if path.name not in CONFIGURATION)


def _why_not(folder: Path) -> str:
    """A wrong HERMES_HOME must not cost anybody their files."""
    if folder in (Path.home(), *Path.home().parents) or folder in Path.cwd().parents:
        return "it holds much more than Hermes"
    if not folder.is_dir():
        return "it is not a folder"
    if not any((folder / sign).exists() for sign in SIGNS):
        return "it does not look like a home of Hermes"
    strange = next((name for name in NOT_OURS if (folder / name).exists()), "")
    return f"there is a {strange} in it" if strange else ""


def _delete(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise HermesError(
            f"{error.filename or path} could not be deleted: {error.strerror}"
        ) from error
