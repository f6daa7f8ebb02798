"""`hermes service`: installs the watch as a service of this host, shows it and removes it."""

import os
import subprocess
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from hermes.app.service.service_files import ServiceKind, ServicePlan, service_file
from hermes.app.service.service_installation import (
    detect_kind,
    find_program,
    install_service,
    log_command,
    service_state,
    uninstall_service,
)
from hermes.cli import exit_codes
from hermes.cli.context import home_folder
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_fields, print_json
from hermes.sre.settings import WatchMode

NO_RIGHTS_NOTE = (
    "The user {user} may look, and change only its own files: restarts of other services fail and "
    "are escalated. To let it fix them: hermes service uninstall, then install --user root"
)


@cli_command("""
hermes service install                        the service manager is detected
hermes service install --mode observe         look only, for the first week
hermes service install --kind openrc --print  the text to paste
""")
@click.option(
    "--kind", type=click.Choice(get_args(ServiceKind)), help="The service manager, if not detected."
)
@click.option("--mode", type=click.Choice(get_args(WatchMode)), help="What the watch may do.")
@click.option("--user", default="hermes", show_default=True, help="Who runs it; created if new.")
@click.option(
    "--home",
    default="/var/lib/hermes",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Its home folder.",
)
@click.option("--memory", default=1024, show_default=True, help="The most memory, in MiB.")
@click.option("--cpu", default=50, show_default=True, help="The most processor time, in percent.")
@click.option("--print", "only_print", is_flag=True, help="Print the file; install nothing.")
@click.option("--no-start", is_flag=True, help="Write everything, start nothing.")
def install(
    kind: ServiceKind | None,
    mode: str | None,
    only_print: bool,
    no_start: bool,
    as_json: bool,
    **limits: Any,
) -> int:
    """Keep `hermes watch` running on this host, also after a reboot. Needs root.

    It runs as a user of its own, with the settings of the user who installs it. Can be repeated:
    what is there already stays.

    Exit codes: 0 fine, 2 wrong usage, 3 something is in the way, 5 the service manager failed.
    """
    plan = ServicePlan(
        kind=kind or detect_kind(),
        program=find_program(),
        user=limits["user"],
        home=str(limits["home"].absolute()),
        memory_mib=limits["memory"],
        cpu_percent=limits["cpu"],
    )
    if only_print:
        file = service_file(plan)
        if as_json:
            print_json({"path": file.path, "text": file.text})
        else:
            note(f"# {file.path}")
            click.echo(file.text, nl=False)
        return exit_codes.OK
    done = []
    for line in install_service(plan, home_folder(), mode=mode or "", start=not no_start):
        done.append(line)
        if not as_json:
            echo(line)
    if as_json:
        print_json({"kind": plan.kind, "done": done})
    elif not done:
        echo("Nothing to do: it is installed.")
    if plan.user != "root" and mode == "act":
        note(NO_RIGHTS_NOTE.format(user=plan.user))
    return exit_codes.OK


@cli_command("""
hermes service status
hermes service status --json
""")
def status(as_json: bool = False) -> int:
    """Whether the service is installed and running. Exit code 1 when it is not running."""
    state = service_state()
    if as_json:
        print_json(msgspec.structs.asdict(state))
    elif not state.installed:
        note("not installed: hermes service install")
    else:
        print_fields(msgspec.structs.asdict(state))
    return exit_codes.OK if state.running else exit_codes.FAILED


@cli_command("""
hermes service logs
hermes service logs -n 200 --follow
""")
@click.option("-n", "--lines", default=50, show_default=True, help="How many lines.")
@click.option("-f", "--follow", is_flag=True, help="Show new lines as they arrive.")
def logs(lines: int, follow: bool, as_json: bool) -> int:
    """Show what the watch printed."""
    command = log_command(lines=lines, follow=follow and not as_json)
    if not as_json:
        os.execvp(command[0], command)
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: TID251 - our own log
    print_json({"lines": done.stdout.splitlines()})
    return exit_codes.OK if done.returncode == 0 else exit_codes.FAILED


@cli_command("""
hermes service uninstall                 the home folder stays
hermes service uninstall --remove-home   everything goes
""")
@click.option("--remove-home", is_flag=True, help="Also delete the home folder, with the journal.")
def uninstall(remove_home: bool, as_json: bool) -> int:
    """Stop the service and remove exactly what `install` made. The home folder stays."""
    done = []
    for line in uninstall_service(remove_home=remove_home):
        done.append(line)
        if not as_json:
            echo(line)
    if as_json:
        print_json({"removed": done})
    return exit_codes.OK
