"""Prints tables, fields, JSON, notes, errors, events and progress bars.

rich is loaded only for a table on a terminal; elsewhere a table is aligned text.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from hermes.cli.render.terminal_text import clean, display_width
from hermes.core.errors import HermesError
from hermes.settings import process_environment

TableRow = Sequence[object]


def print_json(value: object) -> None:
    encoded = msgspec.json.encode(value, enc_hook=str)
    click.echo(msgspec.json.format(encoded, indent=2).decode())


def wants_color(variables: Mapping[str, str]) -> bool | None:
    """Return False when colour is unwanted, None when the terminal decides."""
    if variables.get("NO_COLOR") or variables.get("TERM") == "dumb":
        return False
    return None


def echo(text: str = "", **style: Any) -> None:
    click.echo(click.style(text, **style) if style else text)


def note(text: str) -> None:
    """Print to stderr what is not part of the result."""
    click.secho(
        clean(text),
        err=True,
        fg="yellow",
        color=wants_color(process_environment.environment_variables()),
    )


def print_error(text: str) -> None:
    color = wants_color(process_environment.environment_variables())
    lines = clean(text).splitlines() or [""]
    click.echo(click.style("hermes: ", fg="red", bold=True) + lines[0], err=True, color=color)
    for line in lines[1:]:
        click.echo(f"        {line}", err=True, color=color)


def confirm(question: str, *, default: bool = False, option: str = "--yes") -> bool:
    """Ask for a yes or no. Raises `UsageError` without a terminal; `option` is the answer then."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask; use {option}.")
    return click.confirm(question, default=default, err=True)


def print_fields(pairs: Mapping[str, object]) -> None:
    """Print one item as lines of name and value."""
    width = max(map(display_width, pairs), default=0)
    for name, value in pairs.items():
        padding = " " * (width - display_width(name))
        click.echo(click.style(name, bold=True) + padding + "  " + clean(_cell_text(value)))


def print_table(
    columns: Sequence[str], rows: Sequence[TableRow], *, empty: str = "nothing here"
) -> None:
    """Print rows. For an empty table the note goes to stderr, so that a pipe gets nothing."""
    if not rows:
        note(empty)
        return
    texts = [[" ".join(clean(_cell_text(cell)).split()) for cell in row] for row in rows]
    if (
        sys.stdout.isatty()
        and process_environment.environment_variables().get("TERM", "dumb") != "dumb"
    ):
        _print_rich_table(columns, texts)
    else:
        _print_plain_table(columns, texts)


def _print_rich_table(columns: Sequence[str], rows: list[list[str]]) -> None:
    import shutil

    from hermes.cli.render.rich_output import draw_table

    color = click.get_current_context().color is not False
    draw_table(columns, rows, color=color, width=shutil.get_terminal_size().columns)


def _print_plain_table(columns: Sequence[str], rows: list[list[str]]) -> None:
    lines = [[name.upper() for name in columns], *rows]
    widths = [max(display_width(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        padded = (
            text + " " * (width - display_width(text))
            for text, width in zip(line, widths, strict=True)
        )
        click.echo("  ".join(padded).rstrip())


def _cell_text(value: object) -> str:
    if value is None or value in ("", {}):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(_cell_text, value)) or "–"
    return str(value)


def write_file(path: Path, data: bytes | str) -> None:
    """Raises `HermesError` with the reason."""
    try:
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    except OSError as error:
        raise HermesError(f"cannot write {path}: {error.strerror}") from error


def write_events(
    lines: Iterable[bytes], output: Path | None, *, new_file_only: bool = False
) -> None:
    """Write one event per line; `new_file_only` refuses an existing file."""
    if output is None:
        sys.stdout.buffer.writelines(line + b"\n" for line in lines)
        return
    count = 0
    try:
        with output.open("xb" if new_file_only else "wb") as file:
            for line in lines:
                file.write(line + b"\n")
                count += 1
    except FileExistsError as error:
        raise HermesError(f"{output} already exists and is not overwritten") from error
    except OSError as error:
        raise HermesError(f"cannot write {output}: {error.strerror}") from error
    echo(f"{count} events written to {output}")


_BAR_WIDTH = 30
_REDRAW_INTERVAL_S = 0.1


@contextmanager
def progress_bar(label: str, *, min_total: int = 0) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with the done and the total count.

    No bar is shown for a total below `min_total`.
    """
    started: list[int] = []
    drawn = [0.0]

    def show(done: int, total: int) -> None:
        if not started:
            started.append(done)
        now = time.monotonic()
        if not sys.stderr.isatty() or total - started[0] < min_total:
            return
        if now - drawn[0] < _REDRAW_INTERVAL_S and done < total:
            return
        drawn[0] = now
        filled = _BAR_WIDTH * done // max(total, 1)
        click.echo(
            f"\r{label} {'█' * filled}{'░' * (_BAR_WIDTH - filled)} {done:,} of {total:,}",
            err=True,
            nl=False,
        )

    try:
        yield show
    finally:
        if drawn[0]:
            click.echo(err=True)
