"""What stands around a foreign script while it is tried: read as files, never imported by us."""

from pathlib import Path


def read_python_hook() -> bytes:
    """The audit hook that every Python of the trial loads first."""
    return _read("sitecustomize.txt")


def read_python_driver() -> bytes:
    """Runs a Python script as its person would, and then each of its functions."""
    return _read("driver.txt")


def read_program_shim() -> bytes:
    """Stands in for programs that talk to the outside, or that stay."""
    return _read("shim.txt")


def read_shell_hook() -> bytes:
    """What every bash of the trial reads first: programs that are missing, or called by path."""
    return _read("shell.txt")


def read_node_hook() -> bytes:
    """What every node of the trial loads first."""
    return _read("node.txt")


def _read(name: str) -> bytes:
    return (Path(__file__).parent / name).read_bytes()
