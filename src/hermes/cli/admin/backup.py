"""`hermes backup` and `hermes restore`: the home folder in one file."""

from pathlib import Path

import click
import msgspec

from hermes.cli import exit_codes
from hermes.cli.context import home_folder
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json
from hermes.plumbing.units import format_size


@cli_command("""
hermes backup /var/backups/hermes-friday.tar.gz
HERMES_HOME=/var/lib/hermes hermes backup hermes.tar.gz   the home of the service
""")
@click.argument("file", type=click.Path(path_type=Path))
def backup(file: Path, as_json: bool) -> int:
    """Save the home folder in FILE, a .tar.gz. A running watch may continue.

    It contains the keys in .env: only its owner can read it. A journal outside of the home folder
    (`store.path`, `store.url`) is not part of it.
    """
    from hermes.app.home_backup import back_up

    done = back_up(home_folder(), file)
    if as_json:
        print_json(msgspec.to_builtins(done))
        return exit_codes.OK
    echo(f"{done.files} files, {format_size(done.size)}: {done.file}")
    for each in done.left_out:
        note(f"left out: {each}")
    return exit_codes.OK


@cli_command("""
hermes restore hermes-friday.tar.gz
hermes restore hermes-friday.tar.gz --force    the home that is there is kept beside it
""")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Move a home that is not empty aside.")
def restore(file: Path, force: bool, as_json: bool) -> int:
    """Restore the home folder from FILE. Every file and the journal are checked first.

    Exit codes: 0 fine, 3 the home is not empty or in use, 6 the backup is damaged.
    """
    from hermes.app.home_backup import restore as restore_home

    done = restore_home(file, home_folder(), force=force)
    if as_json:
        print_json(msgspec.to_builtins(done))
        return exit_codes.OK
    echo(f"{done.files} files of {done.made_at:%Y-%m-%d %H:%M} UTC restored in {done.home}")
    if done.previous:
        note(f"the former home is in {done.previous}")
    return exit_codes.OK
