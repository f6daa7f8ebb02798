"""The world outside of a sandbox, full of things that must not be touched, and it notices."""

import contextlib
import os
import resource
import secrets
import selectors
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from escapes.attempt import MARK

HERE = Path(__file__).parent
UNTOUCHED = "untouched"


def system_python() -> str:
    """One that every user can reach, if there is one."""
    return "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable


class World:
    """`folder` belongs to whoever runs this and contains `tools/id`, which is setuid root."""

    def __init__(self, folder: Path, token: str) -> None:
        self.token = token
        self.home, self.outside, self.work, self.shown, self.tools = (
            folder / name for name in ("home", "outside", "work", "shown", "tools")
        )
        self.name = f"hermes-{secrets.token_hex(6)}"
        self.shm = Path("/dev/shm") / self.name
        for path in (
            self.home / ".ssh",
            self.home / ".hermes",
            self.outside,
            self.work,
            self.shown,
        ):
            path.mkdir(parents=True)
        (self.home / ".ssh/id_rsa").write_text(token)
        (self.home / ".hermes/.env").write_text(f"OPENAI_API_KEY={token}")
        (self.home / f"named-{token}").touch()
        self.shm.write_text(token)
        self._held = (self.home / "held").open("w+")
        self._held.write(token)
        self._held.flush()
        os.set_inheritable(self._held.fileno(), True)
        self._serve()
        self.reset()

    def _serve(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._sockets = {
            "tcp": socket.create_server(("127.0.0.1", 0)),
            "udp": socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            "abstract": socket.socket(socket.AF_UNIX),
            "stream": socket.socket(socket.AF_UNIX),
            "datagram": socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
            "stream in the working folder": socket.socket(socket.AF_UNIX),
            "datagram in the working folder": socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
            "stream in a readable folder": socket.socket(socket.AF_UNIX),
        }
        self._sockets["udp"].bind(("127.0.0.1", 0))
        self._sockets["abstract"].bind(f"\0{self.name}")
        for name in ("stream", "datagram"):
            self._sockets[name].bind(str(self.outside / name))
            self._sockets[f"{name} in the working folder"].bind(str(self.work / name))
        self._sockets["stream in a readable folder"].bind(str(self.shown / "stream"))
        for name, each in self._sockets.items():
            if each.type == socket.SOCK_STREAM:
                each.listen()
            self._selector.register(each, selectors.EVENT_READ, name)

    def _hits(self) -> list[str]:
        """The kernel notes at once who came: nobody needs to wait for it."""
        found = []
        while ready := self._selector.select(0):
            for key, _ in ready:
                found.append(f"the {key.data} socket was reached")
                server: Any = key.fileobj
                if server.type == socket.SOCK_STREAM:
                    server.accept()[0].close()
                else:
                    server.recv(1000)
        return found

    def reset(self) -> None:
        self.stop_canary()
        for path in [*self.outside.iterdir(), *self.work.iterdir()]:
            if not path.is_socket():
                path.unlink()
        for name in ("canary", "movable"):
            (self.outside / name).write_text(UNTOUCHED if name == "canary" else self.token)
            (self.outside / name).chmod(0o644)
            os.utime(self.outside / name, (1e9, 1e9))
        self.canary = subprocess.Popen(
            [sys.executable, "-I", "-S", str(HERE / "canary.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=self.home, env={"CANARY": self.token},
        )  # fmt: skip
        assert self.canary.stdin is not None
        assert self.canary.stdout is not None
        self.canary.stdin.write(f"{self.token}\n")
        self.canary.stdin.flush()
        self.address = int(self.canary.stdout.readline())
        self._hits()
        self._before = self._state()

    def stop_canary(self) -> None:
        canary: subprocess.Popen[str] | None = getattr(self, "canary", None)
        if canary is not None:
            canary.kill()
            canary.communicate()

    def close(self) -> None:
        self.stop_canary()
        self.shm.unlink(missing_ok=True)

    def script(self, text: str) -> str:
        words = {
            "PYTHON": system_python(),
            "PREFIX": sys.base_prefix,
            "TCP": self._sockets["tcp"].getsockname()[1],
            "UDP": self._sockets["udp"].getsockname()[1],
            "ABSTRACT": self.name,
            "NAME": self.name,
            "HOME": self.home,
            "OUTSIDE": self.outside,
            "SHOWN": self.shown,
            "TOOLS": self.tools,
            "DEVICE": _disk(),
            "PID": self.canary.pid,
            "ADDRESS": self.address,
        }
        for name, value in words.items():
            text = text.replace(f"@{name}@", str(value))
        return text

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "what is outside": sorted(path.name for path in self.outside.iterdir()),
            "core pattern": Path("/proc/sys/kernel/core_pattern").read_text(),
            "host name": socket.gethostname(),
            "the process outside": self.canary.poll(),
        }
        with contextlib.suppress(OSError):
            canary, pid = self.outside / "canary", self.canary.pid
            state["the file outside"] = (
                canary.read_text(),
                canary.stat()[:9],
                os.listxattr(canary),
            )
            state["limits of the process"] = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            state["priority of the process"] = os.getpriority(os.PRIO_PROCESS, pid)
        return state

    def damage(self, output: str) -> list[str]:
        """How an attempt got away; nothing when it did not."""
        found = []
        if MARK in output:
            found.append(f"it says so: {output[-200:]!r}")
        if self.token in output:
            found.append("it printed a secret")
        now = self._state()
        found += [f"changed: {name}" for name in now if now[name] != self._before[name]]
        found += [f"changed: {name}" for name in self._before if name not in now]
        found += [
            f"left behind: {path.name} with mode {path.stat().st_mode:o}"
            for path in self.work.iterdir()
            if not path.is_symlink() and path.stat().st_mode & 0o6000
        ]
        return found + self._hits()

    def pulse(self) -> list[str]:
        beat = self.work / "beat"
        if not beat.exists():
            return []
        before = beat.stat().st_mtime_ns
        time.sleep(0.15)
        return ["it still runs"] if beat.stat().st_mtime_ns != before else []


def _disk() -> str:
    blocks = Path("/sys/block")
    names = sorted(path.name for path in blocks.iterdir()) if blocks.is_dir() else []
    disks = [f"/dev/{name}" for name in names if (blocks / name / "size").read_text() != "0\n"]
    return next((disk for disk in disks if Path(disk).exists()), "/dev/no-disk-here")
