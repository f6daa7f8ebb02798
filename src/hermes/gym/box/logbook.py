"""What services and cron print, with the time, where `journalctl` finds it."""

import os
import time

FOLDER = "/run/log/journal"
LARGEST = 4 << 20


class Logbook:
    def __init__(self) -> None:
        os.makedirs(FOLDER, exist_ok=True)  # noqa: PTH103 - pathlib is slow to import
        self._open: dict[str, int] = {}
        self._partial: dict[str, bytes] = {}

    def note(self, unit: str, who: str, text: str) -> None:
        for line in text.splitlines():
            self._write(unit, f"{time.time():.6f}\t{who}\t{line}\n".encode("utf-8", "replace"))

    def heard(self, unit: str, who: str, data: bytes) -> None:
        """Output as it comes: lines may be cut anywhere."""
        whole = self._partial.pop(unit, b"") + data
        lines = whole.split(b"\n")
        if lines[-1] and len(lines[-1]) < 65536:
            self._partial[unit] = lines[-1]
        elif lines[-1]:
            lines.append(b"")
        now = f"{time.time():.6f}\t{who}\t".encode()
        body = b"".join(now + line + b"\n" for line in lines[:-1])
        if body:
            self._write(unit, body)

    def ended(self, unit: str, who: str) -> None:
        rest = self._partial.pop(unit, b"")
        if rest:
            self._write(unit, f"{time.time():.6f}\t{who}\t".encode() + rest + b"\n")

    def _write(self, unit: str, line: bytes) -> None:
        try:
            if unit not in self._open:
                flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC
                self._open[unit] = os.open(f"{FOLDER}/{unit}", flags, 0o640)
            fd = self._open[unit]
            if os.fstat(fd).st_size > LARGEST:
                os.ftruncate(fd, 0)
            os.write(fd, line)
        except OSError:
            return  # a full disk must not end the first process
