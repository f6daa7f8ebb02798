"""Bytes of a file as text and back again, the same bytes wherever nothing was edited."""

import codecs

from hermes.core.errors import ToolError
from hermes.core.messages import Value

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Decoded(Value, frozen=True):
    text: str
    codec: str
    mark: bytes = b""
    """The byte order mark it began with."""

    def encode(self, text: str) -> bytes:
        """Another text in the same encoding; raises `ToolError` when that cannot say it."""
        try:
            return self.mark + text.encode(self.codec, _errors(self.codec))
        except UnicodeEncodeError as error:
            raise ToolError(
                f"the file is {self.codec}, which has no {error.object[error.start]!r}; "
                "nothing was written"
            ) from error


def decode(data: bytes) -> Decoded | None:
    """None when it is not text."""
    mark, codec = next(((m, c) for m, c in _MARKS if data.startswith(m)), (b"", "utf-8"))
    body = data[len(mark) :]
    if codec != "utf-8":
        try:
            return Decoded(body.decode(codec), codec, mark)
        except UnicodeDecodeError:
            return None
    if b"\0" in body:
        return None
    text = body.decode("utf-8", "surrogateescape")
    broken = sum("\udc80" <= char <= "\udcff" for char in text) if not text.isascii() else 0
    wide = sum(char > "\x7f" for char in text) - broken if broken else 0
    # One broken byte among real UTF-8 is damage to keep; none that fits is an old code page.
    if broken > wide and not mark:
        return Decoded(body.decode("latin-1"), "latin-1")
    return Decoded(text, "utf-8", mark)


def printable(text: str) -> str:
    """Without the half characters that stand for undecodable bytes: those cannot be sent."""
    return text.encode("utf-8", "replace").decode()


def _errors(codec: str) -> str:
    return "surrogateescape" if codec == "utf-8" else "strict"
