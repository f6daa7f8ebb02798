"""A path that is not there: which one was meant?"""

import posixpath
import shlex
from difflib import get_close_matches

from hermes.core.errors import ToolError
from hermes.core.protocols import Environment

_LIST = """( d={folder}; m=
while [ ! -d "$d" ]; do m=$(basename -- "$d"); d=$(dirname -- "$d"); done
printf '%s\\n%s\\n' "$m" "$d"; ls -1Ap -- "$d" | head -n 2000 )"""


async def explain(environment: Environment, path: str, error: ToolError) -> ToolError:
    """A better error for a path that could not be read: what is there instead."""
    folder, name = posixpath.split(path.rstrip("/") or "/")
    command = _LIST.format(folder=shell_word(folder or "."))
    found = await environment.run(command, timeout=15.0)
    missing, existing, *names = [*found.output.splitlines(), "", ""]
    names = [other for other in names if other]
    if found.exit_code != 0 or not existing:
        return error
    if missing:
        name = missing
        names = [other for other in names if other.endswith("/")]
    elif f"{name}/" in names or not name:
        return ToolError(
            f'{path} is a folder; search_files(kind="names", pattern="*", path={path!r}) lists it'
        )
    elif name in names:
        return error
    return ToolError(f"{error}. {_suggest(existing, name, names)}")


def shell_word(path: str) -> str:
    """The path as one word of a command, in a form that no program takes for an option."""
    if path == "~" or path.startswith("~/"):
        return f'"$HOME"{shlex.quote(path[1:]) if path[1:] else ""}'
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def _suggest(folder: str, name: str, names: list[str]) -> str:
    plain = {other.rstrip("/").lower(): other for other in names}
    close = get_close_matches(name.lower(), plain, n=5, cutoff=0.6)
    if close:
        near = ", ".join(posixpath.join(folder, plain[key]) for key in close)
        return f"Did you mean: {near}?"
    if not names:
        return f"{folder} is empty."
    some = ", ".join(names[:20])
    return f"{folder} holds: {some}{' …' if len(names) > 20 else ''}"
