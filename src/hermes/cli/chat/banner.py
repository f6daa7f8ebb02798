"""The banner of the chat: version, model, folder, tools and skills."""

from hermes.cli.render.terminal_text import TextStyle, clean, clip, display_width
from hermes.core.messages import Value

MAX_BANNER_COLUMNS = 100
MAX_NAME_ROWS = 2
"""Rows of tool or skill names; the rest is only counted."""


class ChatInfo(Value, kw_only=True, frozen=True):
    """What the banner and /status show."""

    version: str = ""
    model: str = ""
    directory: str = ""
    environment: str = ""
    tools: tuple[tuple[str, str], ...] = ()
    """Each name with the first line of its description."""
    skills: tuple[tuple[str, str], ...] = ()
    models: tuple[str, ...] = ()
    """References that /model can complete."""
    personalities: dict[str, str] = {}


def render_banner(info: ChatInfo, *, run: str, width: int, style: TextStyle) -> str:
    """No row is wider than `width`; an unknown width counts as 80 columns."""
    columns = min(width if width > 0 else 80, MAX_BANNER_COLUMNS)
    title = f" ☤ Hermes {info.version} "
    rows = [
        style.bold(style.yellow(clip(title, columns))),
        *_field_rows("model", info.model, columns, style),
        *_field_rows("folder", _truncate_path(info.directory, columns - 9), columns, style),
        *_field_rows("runs in", info.environment, columns, style),
        *_name_rows("tools", [name for name, _ in info.tools], columns, style),
        *_name_rows("skills", [name for name, _ in info.skills], columns, style),
        *_field_rows("session", run, columns, style),
        style.dim(clip("/help for commands · Alt-Enter for a new line · Ctrl-C stops", columns)),
    ]
    return "\n".join(rows)


def _field_rows(label: str, value: str, width: int, style: TextStyle) -> list[str]:
    text = clip(clean(value), width - 9)
    return [f"{style.dim(label.ljust(8))} {text}"] if text else []


def _name_rows(label: str, names: list[str], width: int, style: TextStyle) -> list[str]:
    if not names:
        return [f"{style.dim(label.ljust(8))} none"]
    rows, shown = [f"{len(names)}:"], 0
    for name in map(clean, sorted(names)):
        if display_width(rows[-1]) + 1 + display_width(name) <= width - 9:
            rows[-1] += f" {name}"
        elif len(rows) < MAX_NAME_ROWS and display_width(name) <= width - 9:
            rows.append(name)
        else:
            break
        shown += 1
    if shown < len(names):
        rows[-1] = clip(rows[-1], width - 20) + f" +{len(names) - shown} more"
    labels = [style.dim(label.ljust(8)), *[" " * 8] * (len(rows) - 1)]
    return [f"{left} {row}" for left, row in zip(labels, rows, strict=True)]


def _truncate_path(path: str, width: int) -> str:
    """Keep the end of a long path."""
    while display_width(path) > max(width, 10) and "/" in path.lstrip("…/"):
        path = "…/" + path.lstrip("…/").split("/", 1)[1]
    return path
