"""Runs a command and turns every way it can end into one line and an exit code."""

import os
import sys

import click

from hermes.cli import exits
from hermes.cli.commands import COMMANDS, help_text
from hermes.cli.lazy import LazyGroup
from hermes.cli.output import complain, wants_color
from hermes.core.errors import HermesError
from hermes.settings import process


class Root(LazyGroup):
    """`hermes` itself: options it does not know, and no words at all, are meant for `chat`."""

    def get_help(self, ctx: click.Context) -> str:
        return help_text().rstrip()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0].startswith("-"):
            return "chat", self.get_command(ctx, "chat"), args
        return super().resolve_command(ctx, args)


def _overrides(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    for key, equals, _ in pairs:
        if not equals:
            raise click.BadParameter(f"{key!r} is not KEY=VALUE", ctx, parameter)
    return {key: text for key, _, text in pairs}


def _version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from hermes import __version__

        click.echo(f"hermes {__version__}")
        ctx.exit()


@click.group(
    cls=Root,
    table=COMMANDS,
    invoke_without_command=True,
    context_settings={"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]},
)
@click.option("-s", "--set", "overrides", multiple=True, callback=_overrides, metavar="KEY=VALUE")
@click.option("-V", "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version)
@click.pass_context
def root(ctx: click.Context, overrides: dict[str, str]) -> object:
    ctx.obj = overrides
    ctx.color = wants_color(process.variables())
    if ctx.invoked_subcommand is not None:
        return None
    chat = root.get_command(ctx, "chat")
    assert chat is not None
    with chat.make_context("chat", [], parent=ctx) as inner:
        return chat.invoke(inner)


def run(words: list[str]) -> int:
    try:
        result = root.main(words, prog_name="hermes", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return silence()
    except click.Abort:
        return _interrupted()
    except click.ClickException as error:
        error.show()
        return exits.USAGE if isinstance(error, click.UsageError) else exits.FAILED
    except BaseException as error:  # noqa: BLE001 - the front door: a line, not a traceback
        return _ended(error)
    return result if isinstance(result, int) else exits.OK


def _ended(error: BaseException) -> int:
    cause = _cause(error)
    if isinstance(cause, SystemExit | GeneratorExit):
        raise error
    if process.debugging():
        import traceback

        traceback.print_exception(error)
    if isinstance(cause, KeyboardInterrupt):
        return _interrupted()
    if isinstance(cause, BrokenPipeError):
        return silence()
    if isinstance(cause, HermesError):
        complain(str(cause) or type(cause).__name__)
        return exits.code_of(cause)
    complain(f"a mistake in Hermes itself: {type(cause).__name__}: {cause}")
    complain("run it again with HERMES_DEBUG=1 to see where, and please report it")
    return exits.FAILED


def _cause(error: BaseException) -> BaseException:
    """What really happened: task groups wrap one error in several layers."""
    while isinstance(error, BaseExceptionGroup):
        inner = error.exceptions
        error = next((e for e in inner if isinstance(e, KeyboardInterrupt)), inner[0])
    return error


def _interrupted() -> int:
    complain("interrupted")
    return exits.INTERRUPTED


def silence() -> int:
    """Nobody reads any more (`hermes … | head`): end without a word about it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exits.FAILED
