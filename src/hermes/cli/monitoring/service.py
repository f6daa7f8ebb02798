"""`hermes service`: installs the watch as a service of this host, shows it and removes it."""

import os
import subprocess
from collections.abc import Mapping
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
    read_record,
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
    "are escalated. To let it restart them: hermes service install --sudo"
)


@cli_command("""
hermes service install                        the service manager is detected
hermes service install --mode observe         look only, for the first week
hermes service install --sudo                 it may restart the services of this host
hermes service install --kind openrc --print  the text to paste
""")
@click.option(
    "--kind", type=click.Choice(get_args(ServiceKind)), help="The service manager, if not detected."
)
@click.option("--mode", type=click.Choice(get_args(WatchMode)), help="What the watch may do.")
@click.option("--user", help="Who runs it; created if new.  [default: hermes]")
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    help="Its home folder.  [default: /var/lib/hermes]",
)
@click.option("--memory", "memory_mib", type=int, help="The most memory, in MiB.  [default: 1024]")
@click.option(
    "--cpu", "cpu_percent", type=int, help="The most processor time, in percent.  [default: 50]"
)
@click.option("--sudo", is_flag=True, help="Let it start and restart the services found here.")
@click.option("--print", "only_print", is_flag=True, help="Print the files; install nothing.")
@click.option("--no-start", is_flag=True, help="Write everything, start nothing.")
def install(
    kind: ServiceKind | None,
    mode: str | None,
    only_print: bool,
    no_start: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Keep `hermes watch` running on this host, also after a reboot. Needs root.

    It runs as a user of its own, with the settings of the user who installs it. Can be repeated:
    what is there already stays, also options that are not given again.

    Exit codes: 0 fine, 2 wrong usage, 3 something is in the way, 5 the service manager failed.
    """
    plan = _build_plan(kind, given)
    if only_print:
        _print_files(plan, as_json=as_json)
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
    if plan.user != "root" and mode == "act" and not plan.sudo:
        note(NO_RIGHTS_NOTE.format(user=plan.user))
    return exit_codes.OK


def _build_plan(kind: ServiceKind | None, given: Mapping[str, Any]) -> ServicePlan:
    """Options that are not given are those of the installation that is there."""
    chosen = {name: value for name, value in given.items() if value}
    if "home" in chosen:
        chosen["home"] = str(chosen["home"].absolute())
    record = read_record()
    before = msgspec.structs.asdict(record.plan) if record else {}
    chosen = {**before, **chosen, "program": find_program()}
    if kind or "kind" not in chosen:
        chosen["kind"] = kind or detect_kind()
    plan = ServicePlan(**chosen)
    return msgspec.structs.replace(plan, sudo=plan.sudo and plan.user != "root")


def _print_files(plan: ServicePlan, *, as_json: bool) -> None:
    """As JSON one object; with sudo rules, a list of them."""
    files = [service_file(plan)]
    if plan.sudo:
        from hermes.app.service.sudo_rules import commands_file, sudoers_file

        files += [commands_file(), sudoers_file(plan.user)]
    described = [{"path": each.path, "text": each.text} for each in files]
    if as_json:
        print_json(described if plan.sudo else described[0])
        return
    for each in files:
        note(f"# {each.path}")
        click.echo(each.text, nl=False)


@cli_command("""
hermes service status
hermes service status --json
""")
def status(as_json: bool = False) -> int:
    """Show whether the service is installed and running. Exit code 1 when it is not running."""
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
