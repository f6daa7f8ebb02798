"""Everything a command prints goes through here: tables, JSON, notes, complaints.

rich is loaded only when a table is really drawn on a terminal; elsewhere it is aligned text.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec

from hermes.cli.render_safe import cells, clean
from hermes.settings import process

F = TypeVar("F", bound=Callable[..., Any])
Row = Sequence[object]


def json_option(command: F) -> F:
    """`--json` for a command that lists or shows."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def emit_json(value: object) -> None:
    encoded = msgspec.json.encode(value, enc_hook=str)
    click.echo(msgspec.json.format(encoded, indent=2).decode())


def wants_color(variables: Mapping[str, str]) -> bool | None:
    """False when colour is unwanted, None when the terminal decides."""
    if variables.get("NO_COLOR") or variables.get("TERM") == "dumb":
        return False
    return None


def say(text: str = "", **style: Any) -> None:
    click.echo(click.style(text, **style) if style else text)


def note(text: str) -> None:
    """Worth knowing, and not part of the answer: goes to stderr."""
    click.secho(clean(text), err=True, fg="yellow", color=wants_color(process.variables()))


def complain(text: str) -> None:
    color = wants_color(process.variables())
    lines = clean(text).splitlines() or [""]
    click.echo(click.style("hermes: ", fg="red", bold=True) + lines[0], err=True, color=color)
    for line in lines[1:]:
        click.echo(f"        {line}", err=True, color=color)


def confirm(question: str, *, default: bool = False) -> bool:
    """A yes from a person. Where nobody sits at the keyboard a script must not take it for done."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Nobody is here to answer; say it with --yes.")
    return click.confirm(question, default=default, err=True)


def fields(pairs: Mapping[str, object]) -> None:
    """One thing, as name and value lines."""
    width = max(map(cells, pairs), default=0)
    for name, value in pairs.items():
        padding = " " * (width - cells(name))
        click.echo(click.style(name, bold=True) + padding + "  " + clean(_text(value)))


def table(columns: Sequence[str], rows: Sequence[Row], *, empty: str = "nothing here") -> None:
    """Many things. An empty table says so on stderr, so that a pipe gets nothing."""
    if not rows:
        note(empty)
        return
    texts = [[" ".join(clean(_text(cell)).split()) for cell in row] for row in rows]
    if sys.stdout.isatty() and process.variables().get("TERM", "dumb") != "dumb":
        _draw(columns, texts)
    else:
        _align(columns, texts)


def _draw(columns: Sequence[str], rows: list[list[str]]) -> None:
    import shutil

    from hermes.cli.output_rich import draw

    color = click.get_current_context().color is not False
    draw(columns, rows, color=color, width=shutil.get_terminal_size().columns)


def _align(columns: Sequence[str], rows: list[list[str]]) -> None:
    lines = [[name.upper() for name in columns], *rows]
    widths = [max(cells(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        padded = (
            text + " " * (width - cells(text)) for text, width in zip(line, widths, strict=True)
        )
        click.echo("  ".join(padded).rstrip())


def _text(value: object) -> str:
    if value is None or value in ("", {}):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(_text, value)) or "–"
    return str(value)
