"""`hermes copy`: try something in a copy of this machine."""

import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click

from hermes.app.copies.host_copies import PathChange, find_changes, open_machine_copy
from hermes.cli import exit_codes
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json
from hermes.environments.copies import DEFAULT_LIMITS, CopyLimits
from hermes.environments.copies.box_copy import BoxCopy
from hermes.settings import process_environment

SHELL_TIME_S = 8 * 3600.0
MAX_NAMED_CHANGES = 12


def limit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--unit", "units", multiple=True, help="A service to start in the copy."),
        click.option("--memory", default=DEFAULT_LIMITS.memory_mb, show_default=True, help="MB."),
        click.option("--disk", default=DEFAULT_LIMITS.disk_mb, show_default=True, help="MB."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def command_options(function: Callable[..., Any]) -> Callable[..., Any]:
    function = click.option("--timeout", default=60.0, show_default=True, help="Seconds.")(function)
    return click.argument("command", nargs=-1, required=True)(limit_options(function))


@cli_command(
    """
hermes copy run -- nginx -t
hermes copy run --unit nginx -- 'sleep 1; curl -s localhost'
hermes copy run --json -- apt-get -y upgrade
"""
)
@command_options
def run(
    ctx: click.Context,
    command: tuple[str, ...],
    units: tuple[str, ...],
    memory: int,
    disk: int,
    timeout: float,
    as_json: bool,
) -> int:
    """Run COMMAND in a copy of this machine, and name the files that it changed.

    One word is a line for bash; several words are a command with its arguments.
    """
    limits = CopyLimits(memory_mb=memory, disk_mb=disk, time_s=timeout + 60)
    script = _script(command)
    return anyio.run(partial(_run, ctx, script, units, limits, timeout, as_json=as_json))


@cli_command(
    """
hermes copy diff -- sed -i s/8080/80/ /etc/nginx/nginx.conf
hermes copy diff --json -- dpkg-reconfigure -f noninteractive tzdata
"""
)
@command_options
def diff(
    ctx: click.Context,
    command: tuple[str, ...],
    units: tuple[str, ...],
    memory: int,
    disk: int,
    timeout: float,
    as_json: bool,
) -> int:
    """Run COMMAND in a copy of this machine and print how its files differ afterwards."""
    limits = CopyLimits(memory_mb=memory, disk_mb=disk, time_s=timeout + 60)
    script = _script(command)
    return anyio.run(partial(_diff, ctx, script, units, limits, timeout, as_json=as_json))


@cli_command("hermes copy shell\nhermes copy shell --unit postgresql")
@limit_options
def shell(ctx: click.Context, units: tuple[str, ...], memory: int, disk: int) -> int:
    """Open a shell in a copy of this machine. With standard input from a file: run it."""
    limits = CopyLimits(memory_mb=memory, disk_mb=disk, time_s=SHELL_TIME_S)
    return anyio.run(partial(_shell, ctx, units, limits))


def _script(command: tuple[str, ...]) -> str:
    return command[0] if len(command) == 1 else shlex.join(command)


async def _open(
    ctx: click.Context, units: tuple[str, ...], limits: CopyLimits, *, as_json: bool = False
) -> BoxCopy:
    """What is not in the copy is a field of the JSON, or a note."""
    loaded = load_settings(ctx)
    copy = await open_machine_copy(loaded.home, limits, units=units, cwd=str(Path.cwd()))
    for each in () if as_json else copy.left_out:
        note(f"not in the copy: {each}")
    return copy


async def _run(
    ctx: click.Context,
    script: str,
    units: tuple[str, ...],
    limits: CopyLimits,
    timeout: float,
    *,
    as_json: bool,
) -> int:
    copy = await _open(ctx, units, limits, as_json=as_json)
    try:
        left_out = copy.left_out
        ran = await copy.run(script, timeout_s=timeout)
        changed = copy.changed_paths()
    finally:
        await copy.close()
    if as_json:
        print_json({"code": ran.code, "output": ran.output, "changed": changed,
                    "timed_out": ran.timed_out, "left_out": left_out})  # fmt: skip
    else:
        click.echo(ran.output, nl=False)
        if ran.timed_out:
            note(f"the command was stopped after {timeout:g} s (--timeout)")
        _name_changes(changed)
    return ran.code


async def _diff(
    ctx: click.Context,
    script: str,
    units: tuple[str, ...],
    limits: CopyLimits,
    timeout: float,
    *,
    as_json: bool,
) -> int:
    copy = await _open(ctx, units, limits, as_json=as_json)
    try:
        left_out = copy.left_out
        ran = await copy.run(script, timeout_s=timeout)
        changes = await find_changes(copy)
    finally:
        await copy.close()
    if as_json:
        print_json({"code": ran.code, "output": ran.output, "changes": changes,
                    "left_out": left_out})  # fmt: skip
        return ran.code
    if ran.timed_out:
        note(f"the command was stopped after {timeout:g} s (--timeout)")
    elif ran.code:
        note(f"the command exited with {ran.code}: {ran.output.strip()[-500:]}")
    for change in changes:
        _print_change(change)
    if not changes:
        note("the command changed no file")
    return ran.code


def _print_change(change: PathChange) -> None:
    if change.diff:
        click.echo(change.diff)
    else:
        echo(f"{change.kind}: {change.path}")


async def _shell(ctx: click.Context, units: tuple[str, ...], limits: CopyLimits) -> int:
    copy = await _open(ctx, units, limits)
    try:
        if not sys.stdin.isatty():
            ran = await copy.run(sys.stdin.read(), timeout_s=limits.time_s)
            click.echo(ran.output, nl=False)
            return ran.code
        note("this is a copy of the machine: nothing that you do here changes it; `exit` ends it")
        await copy.run_shell(process_environment.environment_variables().get("TERM", "xterm"))
        _name_changes(copy.changed_paths())
    finally:
        await copy.close()
    return exit_codes.OK


def _name_changes(paths: tuple[str, ...]) -> None:
    if not paths:
        return
    more = len(paths) - MAX_NAMED_CHANGES
    rest = f" and {more} more" if more > 0 else ""
    note(f"changed in the copy only: {', '.join(paths[:MAX_NAMED_CHANGES])}{rest}")
