"""What a program at the far end of a line says last: how it ended, what the kernel refused it, and
where the session is now."""

import base64
import binascii

from hermes.core.actions import Blocked
from hermes.environments.confined import blocked_of
from hermes.environments.confinement.one_command import ELSEWHERE, FAILED


class LastWord:
    """`CODE [REPORT [FOLDER/]]`: the report in base64 or `-`, line ends of the folder as `\\n`."""

    def __init__(self, text: str | None) -> None:
        code, report, folder = (*(text or "").split(" ", 2), "", "", "")[:3]
        self.text = code
        self.code = int(code) if code.isdigit() else None
        """None when it is not known."""
        self.folder = _unescaped(folder.removesuffix("/")) if folder else ""
        """Empty when the command left no state."""
        self.blocked: list[Blocked] = []
        self.not_run: tuple[str, str] | None = None
        """Why the command was not run: the kind of obstacle and its reason."""
        for line in _decoded(report).splitlines():
            kind, reason, *_ = [*line.split("\0"), ""]
            if kind in (ELSEWHERE, FAILED):
                self.not_run = (kind, reason)
            else:
                self.blocked.append(blocked_of(line))


def _unescaped(path: str) -> str:
    return "\\".join(part.replace("\\n", "\n") for part in path.split("\\\\"))


def _decoded(report: str) -> str:
    try:
        return base64.b64decode(report).decode("utf-8", "replace") if report != "-" else ""
    except binascii.Error:
        return ""
