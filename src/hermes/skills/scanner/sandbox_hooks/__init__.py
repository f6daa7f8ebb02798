"""Programs that observe a foreign script during its trial: read as files, never imported here."""

from pathlib import Path


def read_python_hook() -> bytes:
    """The audit hook that every Python process of the trial loads first."""
    return _read("sitecustomize.txt")


def read_python_driver() -> bytes:
    """Runs a Python script as a user would, and then each of its functions."""
    return _read("driver.txt")


def read_program_shim() -> bytes:
    """Replaces programs that use the network or install something permanently."""
    return _read("shim.txt")


def read_shell_hook() -> bytes:
    """Read first by every bash of the trial: for programs that are missing or called by path."""
    return _read("shell.txt")


def read_node_hook() -> bytes:
    """Loaded first by every node process of the trial."""
    return _read("node.txt")


def _read(name: str) -> bytes:
    return (Path(__file__).parent / name).read_bytes()
