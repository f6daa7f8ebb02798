"""Commands and groups: help with examples, `--json`, and modules loaded when they are needed."""

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

CommandFunction = Callable[..., Any]


class CommandWithExamples(click.Command):
    """A command whose help ends with examples, printed unchanged."""

    def __init__(self, *arguments: Any, examples: str = "", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            formatter.write("\nExamples:\n")
            formatter.write("".join(f"  {line}\n" for line in self.examples.strip().splitlines()))


class LazyGroup(CommandWithExamples, click.Group):
    """The commands are in a table: name → (module or module:attribute, one line of help).

    The modules are those of `hermes.cli`.
    """

    def __init__(
        self, *arguments: Any, table: Mapping[str, tuple[str, str]] | None = None, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.table = dict(table or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module, _, attribute = self.table[cmd_name][0].partition(":")
        command = getattr(import_module(f"hermes.cli.{module}"), attribute or cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        offered = [
            CompletionItem(name, help=line)
            for name, (_, line) in self.table.items()
            if name.startswith(incomplete)
        ]
        return offered + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.table and not args[0].startswith("-"):
            from hermes.plumbing.problems import closest_name

            near = closest_name(args[0], self.table)
            hint = f"Did you mean {near}?" if near else f"There are: {', '.join(self.table)}."
            ctx.fail(f"No such command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)


def cli_command(
    examples: str = "", *, cls: type[CommandWithExamples] = CommandWithExamples
) -> Callable[[CommandFunction], CommandWithExamples]:
    """Make a function a command of its name; `list_` becomes `list`, `carry_on` `carry-on`.

    A parameter `as_json` adds the option --json; a first parameter `ctx` is the context.
    """

    def decorate(function: CommandFunction) -> CommandWithExamples:
        return _build_command(function, cls, examples=examples)

    return decorate


def cli_group(
    table: Mapping[str, tuple[str, str]], examples: str, *, default: str = ""
) -> Callable[[CommandFunction], CommandWithExamples]:
    """Make a function a group. Called without a command, it runs `default` with its --json.

    A function that takes parameters runs itself instead.
    """

    def decorate(function: CommandFunction) -> CommandWithExamples:
        def run_default(ctx: click.Context, as_json: bool) -> Any:
            if ctx.invoked_subcommand is None:
                chosen = ctx.command.get_command(ctx, default)  # type: ignore[attr-defined]
                return ctx.invoke(chosen, as_json=as_json)
            return None

        run_default.__name__, run_default.__doc__ = function.__name__, function.__doc__
        runs_alone = bool(default or inspect.signature(function).parameters)
        return _build_command(
            run_default if default else function,
            LazyGroup,
            table=table,
            examples=examples,
            invoke_without_command=runs_alone,
        )

    return decorate


def _build_command(
    function: CommandFunction, cls: type[CommandWithExamples], **options: Any
) -> CommandWithExamples:
    parameters = [*inspect.signature(function).parameters]
    callback = click.pass_context(function) if parameters[:1] == ["ctx"] else function
    name = function.__name__.rstrip("_").replace("_", "-")
    built: CommandWithExamples = click.command(name, cls=cls, **options)(callback)
    if "as_json" in parameters:
        built.params.append(click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."))
    return built
