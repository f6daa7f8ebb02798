"""Runs a command and turns every error into one line and an exit code."""

import errno
import io
import os
import sys

import click

from hermes.cli import exit_codes
from hermes.cli.commands import COMMANDS, help_text
from hermes.cli.lazy import LazyGroup
from hermes.cli.output import print_error, wants_color
from hermes.core.errors import HermesError, innermost_error
from hermes.settings import process_environment


class RootGroup(LazyGroup):
    """`hermes` itself: unknown options, and a call without arguments, go to `chat`."""

    def get_help(self, ctx: click.Context) -> str:
        return help_text().rstrip()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0].startswith("-"):
            return "chat", self.get_command(ctx, "chat"), args
        return super().resolve_command(ctx, args)


def _parse_overrides(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    for key, equals, _ in pairs:
        if not equals:
            raise click.BadParameter(f"{key!r} is not KEY=VALUE", ctx, parameter)
    return {key: text for key, _, text in pairs}


def _print_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from hermes import __version__

        click.echo(f"hermes {__version__}")
        ctx.exit()


@click.group(
    cls=RootGroup,
    table=COMMANDS,
    invoke_without_command=True,
    context_settings={"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]},
)
@click.option(
    "-s", "--set", "overrides", multiple=True, callback=_parse_overrides, metavar="KEY=VALUE"
)
@click.option(
    "-V", "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version
)
@click.pass_context
def root(ctx: click.Context, overrides: dict[str, str]) -> object:
    ctx.obj = overrides
    ctx.color = wants_color(process_environment.environment_variables())
    if ctx.invoked_subcommand is not None:
        return None
    chat = root.get_command(ctx, "chat")
    assert chat is not None
    with chat.make_context("chat", [], parent=ctx) as inner:
        return chat.invoke(inner)


_UNWRITABLE_ERRNOS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO)


def run_command(words: list[str]) -> int:
    _prepare_streams()
    try:
        result = root.main(words, prog_name="hermes", standalone_mode=False)
        sys.stdout.flush()
    except click.Abort:
        return _report_interrupt()
    except click.ClickException as error:
        error.show()
        return exit_codes.USAGE if isinstance(error, click.UsageError) else exit_codes.FAILED
    except BaseException as error:  # noqa: BLE001 - a line, not a traceback
        return _report_error(error)
    return result if isinstance(result, int) else exit_codes.OK


def _report_error(error: BaseException) -> int:
    cause = innermost_error(error)
    if isinstance(cause, SystemExit | GeneratorExit):
        raise error
    if process_environment.is_debugging():
        import traceback

        traceback.print_exception(error)
    if isinstance(cause, KeyboardInterrupt):
        return _report_interrupt()
    if isinstance(cause, OSError) and cause.filename is None and cause.errno in _UNWRITABLE_ERRNOS:
        return report_unwritable_output(cause)
    if isinstance(cause, HermesError):
        print_error(str(cause) or type(cause).__name__)
        return exit_codes.exit_code_for(cause)
    print_error(f"a bug in Hermes: {type(cause).__name__}: {cause}")
    print_error("run it again with HERMES_DEBUG=1 for a traceback, and please report it")
    return exit_codes.FAILED


def _report_interrupt() -> int:
    print_error("interrupted")
    return exit_codes.INTERRUPTED


def report_unwritable_output(error: OSError) -> int:
    """Report an output error; a closed pipe (`| head`) is ignored."""
    os.dup2(
        os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
    )  # else the last flush of Python fails
    if not isinstance(error, BrokenPipeError):
        print_error(f"the output could not be written: {error.strerror}")
    return exit_codes.FAILED


def _prepare_streams() -> None:
    """Replace closed streams (`>&-`) by /dev/null; characters outside the encoding become ?."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)  # so that no other file gets this descriptor
            setattr(sys, name, os.fdopen(nothing, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
