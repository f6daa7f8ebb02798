"""Programs that are sent into an environment and run there: standard library only, any Python 3."""

from pathlib import Path


def program_source(name: str) -> str:
    """The source text of one of them."""
    return Path(__file__).with_name(f"{name}.py").read_text("utf-8")
