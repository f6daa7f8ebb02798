"""Decodes and encodes text files without changing other bytes, and explains missing paths."""

import codecs
import posixpath
import shlex
from difflib import get_close_matches

from hermes.core.errors import ToolError
from hermes.core.messages import Value
from hermes.core.protocols import Environment

EMPTY_FILE_TEXT = "[empty file]"
"""What is shown of a file without content."""

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class DecodedText(Value, frozen=True):
    text: str
    codec: str
    byte_order_mark: bytes = b""
    """The byte order mark it began with."""

    def encode(self, text: str) -> bytes:
        """Another text in the same encoding; raises `ToolError` when that cannot represent it."""
        try:
            return self.byte_order_mark + text.encode(self.codec, _error_handler(self.codec))
        except UnicodeEncodeError as error:
            raise ToolError(
                f"the file is {self.codec}, which has no {error.object[error.start]!r}; "
                "nothing was written"
            ) from error


def decode_text(data: bytes) -> DecodedText | None:
    """Return None when it is not text."""
    mark, codec = next(((m, c) for m, c in _BYTE_ORDER_MARKS if data.startswith(m)), (b"", "utf-8"))
    body = data[len(mark) :]
    if codec != "utf-8":
        try:
            return DecodedText(body.decode(codec), codec, mark)
        except UnicodeDecodeError:
            return None
    if b"\0" in body:
        return None
    text = body.decode("utf-8", "surrogateescape")
    broken = sum("\udc80" <= char <= "\udcff" for char in text) if not text.isascii() else 0
    wide = sum(char > "\x7f" for char in text) - broken if broken else 0
    # One broken byte among real UTF-8 is damage to keep; none that fits is an old code page.
    if broken > wide and not mark:
        return DecodedText(body.decode("latin-1"), "latin-1")
    return DecodedText(text, "utf-8", mark)


def printable(text: str) -> str:
    """Without the surrogates that represent undecodable bytes: those cannot be sent."""
    return text.encode("utf-8", "replace").decode()


def _error_handler(codec: str) -> str:
    return "surrogateescape" if codec == "utf-8" else "strict"


_LIST_NEAREST_FOLDER = """( d={folder}; m=
while [ ! -d "$d" ]; do m=$(basename -- "$d"); d=$(dirname -- "$d"); done
printf '%s\\n%s\\n' "$m" "$d"; ls -1Ap -- "$d" | head -n 2000 )"""


async def explain_missing_path(environment: Environment, path: str, error: ToolError) -> ToolError:
    """A better error for a path that could not be read: what exists instead."""
    folder, name = posixpath.split(path.rstrip("/") or "/")
    command = _LIST_NEAREST_FOLDER.format(folder=shell_path(folder or "."))
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
    return ToolError(f"{error}. {_suggest_path(existing, name, names)}")


def shell_path(path: str) -> str:
    """The path as one word of a command, in a form that no program takes for an option."""
    if path == "~" or path.startswith("~/"):
        return f'"$HOME"{shlex.quote(path[1:]) if path[1:] else ""}'
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def _suggest_path(folder: str, name: str, names: list[str]) -> str:
    plain = {other.rstrip("/").lower(): other for other in names}
    close = get_close_matches(name.lower(), plain, n=5, cutoff=0.6)
    if close:
        near = ", ".join(posixpath.join(folder, plain[key]) for key in close)
        return f"Did you mean: {near}?"
    if not names:
        return f"{folder} is empty."
    some = ", ".join(names[:20])
    return f"{folder} holds: {some}{' …' if len(names) > 20 else ''}"
