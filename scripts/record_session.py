"""Records a chat in a real terminal (tmux) against a local model server, with a kill and a resume.

usage: python scripts/record_session.py > docs/tutorial/recording.md
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMAND = "echo step STEP; df -h / | tail -n 1; sleep 1"
ANSWER = "The root file system is the one above; nothing is close to full."
PAGE = """\
# A recorded session

`scripts/record_session.py` wrote this page: `hermes` in tmux, a local OpenAI-compatible server, a
command that is approved, a `kill -9` in the middle of the next one, and `hermes --resume`.

```text
{first}
```

Then the process was killed while its next command ran, and started again with `hermes --resume`:

```text
{second}
```
"""


@contextmanager
def server() -> Iterator[str]:
    words = ["--turns", "1", "--arguments", f'{{"command": "{COMMAND}"}}', "--final", ANSWER]
    command = [sys.executable, str(ROOT / "bench/server.py"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield child.stdout.readline().strip()
        child.kill()


class Screen:
    def __init__(self, socket: str, env: dict[str, str]) -> None:
        self._tmux = ["tmux", "-L", socket]
        words = [f"{name}={value}" for name, value in env.items()]
        shell = ["env", "-i", *words, "bash", "--norc", "-i"]
        self._call("new-session", "-d", "-x", "96", "-y", "40", *shell)

    def _call(self, *words: str) -> str:
        return subprocess.check_output([*self._tmux, *words], text=True)

    def type(self, text: str) -> None:
        self._call("send-keys", "-l", text)
        self._call("send-keys", "Enter")

    def wait(self, text: str, times: int = 1) -> str:
        deadline = time.monotonic() + 20
        while (shown := self._call("capture-pane", "-p")).count(text) < times:
            if time.monotonic() > deadline:
                raise SystemExit(f"never saw {text!r} in:\n{shown}")
            time.sleep(0.05)
        return "\n".join(line.rstrip() for line in shown.rstrip().splitlines())

    def close(self) -> None:
        self._call("kill-server")


def record(port: str, home: str) -> str:
    env = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": home,
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "PS1": "$ ",
        "DEFAULT_MODEL": "lab:demo",
        "HERMES_MODEL__PROVIDERS__LAB__BASE_URL": f"http://127.0.0.1:{port}/v1",
        "HERMES_MODEL__PROVIDERS__LAB__KEY_VARIABLE": "none",
    }
    screen = Screen(f"hermes-{os.getpid()}", env)
    try:
        screen.type(f"cd {home} && clear && hermes")
        screen.wait("❯")
        screen.type("is a disk about to fill up?")
        screen.wait("[d]eny")
        screen.type("o")
        first = screen.wait("nothing is close to full")
        screen.type("and now?")
        screen.wait("[d]eny", times=2)
        screen.type("o")
        screen.wait("sleep 1", times=3)
        subprocess.check_call(["pkill", "-9", "-f", f"{Path(sys.executable).parent}/hermes$"])
        screen.wait("Killed")
        screen.type("clear; hermes --resume")
        second = screen.wait("nothing is close to full", times=2)
    finally:
        screen.close()
    return PAGE.format(first=first, second=second).replace(home, "~")


if __name__ == "__main__":
    with server() as port, tempfile.TemporaryDirectory(prefix="rec-") as home:
        sys.stdout.write(record(port, home))
