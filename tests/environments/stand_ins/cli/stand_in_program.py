"""What the stand-in programs share. Nothing real could be had for these tests: a "container" is a
folder of this machine, and programs run here with an empty environment. The arguments are read as
strictly as the real programs read them, and each call is written down.

Next to the folder `bin` that a program lies in, `stand-in` holds what it knows: `calls` (a
Python literal a line), a folder per container, and files by whose name a test asks for a fault.
"""

# Hundreds of these are started in a test run, and pathlib would double the time it takes.
# ruff: noqa: PTH100, PTH103, PTH112, PTH118, PTH120, PTH123, PTH208

import os
import sys
from _signal import SIG_DFL, SIGPIPE, SIGXFSZ, signal  # `signal` itself takes longer to load

HOME = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0]))), "stand-in")


def note(arguments: list[str]) -> None:
    os.makedirs(HOME, exist_ok=True)
    with open(os.path.join(HOME, "calls"), "a") as file:
        file.write(repr({"argv": arguments, "variables": sorted(os.environ)}) + "\n")


def asked_for(fault: str) -> str | None:
    """What the test wants to be said, when it wants that fault."""
    try:
        with open(os.path.join(HOME, fault)) as file:
            return file.read() or fault
    except FileNotFoundError:
        return None


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def give_up(message: str, code: int = 1) -> None:
    sys.stdout.flush()
    sys.stderr.write(message + "\n")
    sys.stderr.flush()
    os._exit(code)


def flags(
    arguments: list[str], valued: set[str], bare: set[str], *, anywhere: bool
) -> tuple[dict[str, str], list[str]]:
    """Flags by name, and the rest. Unless they may stand anywhere, the first word ends them."""
    found: dict[str, str] = {}
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            return found, [*rest, "--", *words]
        if not word.startswith("-"):
            rest.append(word)
            if anywhere:
                continue
            return found, rest + words
        name, equals, value = word.partition("=")
        if name in bare:
            if equals and value not in ("true", "false"):
                give_up(f"invalid argument {value!r} for {name!r} flag")
            found[name] = value or "true"
        elif name not in valued:
            give_up(f"Error: unknown flag: {name}")
        elif equals:
            found[name] = value
        elif words:
            found[name] = words.pop(0)
        else:
            give_up(f"Error: flag needs an argument: {name}")
    return found, rest


def containers(pattern: str = "*") -> list[str]:
    """Names of those that are there."""
    try:
        names = sorted(os.listdir(os.path.join(HOME, "containers")))
    except FileNotFoundError:
        return []
    return [name for name in names if name == pattern or name.startswith(pattern.rstrip("*"))]


class Container:
    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = os.path.join(HOME, "containers", name)

    @property
    def there(self) -> bool:
        return os.path.isdir(self.folder)

    def make(self) -> None:
        for part in ("work", "tmp"):
            os.makedirs(os.path.join(self.folder, part))

    def variables(self) -> dict[str, str]:
        return {
            "PATH": os.defpath + ":/usr/local/bin:/usr/sbin:/sbin",
            "HOME": self.folder,
            "TMPDIR": os.path.join(self.folder, "tmp"),
            "STAND_IN": self.folder,
        }

    def enter(self) -> None:
        for name in (SIGPIPE, SIGXFSZ):  # ignored by Python, and that would be inherited
            signal(name, SIG_DFL)
        os.chdir(os.path.join(self.folder, "work"))

    def end(self) -> None:
        import shutil  # noqa: PLC0415 - most calls are over before it would be loaded

        mark = f"STAND_IN={self.folder}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if mark in file.read().split(b"\0") and int(pid) != os.getpid():
                        os.kill(int(pid), 9)
            except OSError:
                continue
        shutil.rmtree(self.folder, ignore_errors=True)
