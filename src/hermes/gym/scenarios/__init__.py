"""The scenarios that come with Hermes; each folder is one."""

from pathlib import Path


def folder() -> Path:
    return Path(__file__).parent
