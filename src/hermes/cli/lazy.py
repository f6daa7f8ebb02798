"""A click group that loads its commands when they are called, not when they are listed."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """The commands are in a table: name → (module or module:attribute, one line of help)."""

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
        command = getattr(import_module(module), attribute or cmd_name)
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


class CommandWithExamples(click.Command):
    """A command whose help ends with examples, printed unchanged."""

    def __init__(self, *arguments: Any, examples: str = "", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)


class GroupWithExamples(LazyGroup):
    """A lazy group whose help ends with examples."""

    def __init__(self, *arguments: Any, examples: str = "", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)


def write_examples(formatter: click.HelpFormatter, examples: str) -> None:
    if examples:
        formatter.write("\nExamples:\n")
        formatter.write("".join(f"  {line}\n" for line in examples.strip().splitlines()))
