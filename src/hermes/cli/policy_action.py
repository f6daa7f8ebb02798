"""Options by which a person says which action is meant, shared by `check` and `explain`."""

import shlex
from collections.abc import Callable
from functools import wraps
from typing import Any, get_args

import click
import msgspec

from hermes.cli.lazy import Examples
from hermes.core.events.happening import Origin
from hermes.core.messages import Value
from hermes.policy.settings import PolicySettings

SETS: tuple[str, ...] = get_args(
    next(f.type for f in msgspec.structs.fields(PolicySettings) if f.name == "set")
)
_TARGET = ("host", "service", "namespace", "environment", "place")


class Asked(Value, kw_only=True, frozen=True):
    """What was said on the command line."""

    words: tuple[str, ...] = ()
    cwd: str = ""
    tool: str = ""
    arguments: str = ""
    origin: str = "cli"
    target: tuple[str, ...] = ()
    environment: str = ""
    isolated: bool = False
    tainted: bool = False
    set_name: str | None = None

    @property
    def overrides(self) -> dict[str, str]:
        return {"policy.set": self.set_name} if self.set_name else {}

    def given(self) -> dict[str, Any]:
        """As one line of JSON would say it. One word is shell text, several are one command."""
        command = self.words[0] if len(self.words) == 1 else shlex.join(self.words)
        target = _target(self.target) | (
            {"environment": self.environment} if self.environment else {}
        )
        place = target.pop("place", "")
        given = {
            "command": command,
            "tool": self.tool,
            "arguments": _arguments(self.arguments),
            "origin": self.origin,
            "environment": place,
            "target": target,
            "isolated": self.isolated,
            "tainted": self.tainted,
        }
        return {key: value for key, value in given.items() if value}


class TakesCommand(Examples):
    """A command that ends with another command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        bare = "--" not in args
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if not bare:
                raise
            hint = f"put -- before the command: {ctx.command_path} -- rm -rf x"
            raise click.UsageError(f"{error.format_message()} If it is not ours, {hint}") from error


def about_an_action(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hands the options below to a command as one `Asked`."""
    names = Asked.__struct_fields__

    @wraps(function)
    def gathered(*arguments: Any, **options: Any) -> Any:
        asked = Asked(**{name: options.pop(name) for name in names})
        return function(*arguments, asked=asked, **options)

    command: Callable[..., Any] = gathered
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.argument("words", nargs=-1, metavar="[--] COMMAND..."),
    click.option("--cwd", default="", help="Folder it would run in; else this one."),
    click.option("--tool", default="", help="Tool that would be called; else terminal."),
    click.option("--arguments", default="", metavar="JSON", help="What the tool would be given."),
    click.option("--origin", default="cli", type=click.Choice(get_args(Origin)), show_default=True),
    click.option(
        "--target",
        multiple=True,
        metavar="HOST",
        help="Where it would act: a host, or KEY=VALUE with host, service, namespace, place.",
    ),
    click.option("--environment", default="", help="What the target stands for, such as prod."),
    click.option("--isolated", is_flag=True, help="In a place that cannot hurt the host."),
    click.option("--tainted", is_flag=True, help="Words of it come from a log or a web page."),
    click.option("--set", "set_name", type=click.Choice(SETS), default=None, help="Built-in set."),
)


def _target(given: tuple[str, ...]) -> dict[str, str]:
    target = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            key, value = "host", text
        if key not in _TARGET:
            raise click.UsageError(f"--target {text}: the key is one of {', '.join(_TARGET)}")
        target[key] = value
    return target


def _arguments(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise click.UsageError(f"--arguments must be a JSON object: {error}") from error
