"""What stands around a foreign script while it is tried: read as files, never imported by us."""

from pathlib import Path


def watcher() -> bytes:
    """The audit hook that every Python of the trial loads first."""
    return (Path(__file__).parent / "sitecustomize.txt").read_bytes()


def shim() -> bytes:
    """Stands in for programs that talk to the outside, or that stay."""
    return (Path(__file__).parent / "shim.txt").read_bytes()
