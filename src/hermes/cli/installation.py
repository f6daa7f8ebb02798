"""How this copy of Hermes came here, and therefore how it is updated or taken away."""

import json
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Literal

import msgspec

import hermes

NAME = "hermes"
Kind = Literal["checkout", "repository", "pipx", "uv tool", "package", "unknown"]


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    location: str
    update: tuple[tuple[str, ...], ...] = ()
    """Commands that bring the latest version; empty when nobody can tell."""
    remove: tuple[str, ...] = ()


def installation() -> Installation:
    location = str(Path(hermes.__file__).parent)
    try:
        found = distribution(NAME)
    except PackageNotFoundError:
        return Installation(kind="unknown", location=location)
    prefix = Path(sys.prefix).parts
    if "pipx" in prefix:
        return _tool("pipx", location, ("pipx", "upgrade", NAME), ("pipx", "uninstall", NAME))
    if "uv" in prefix and "tools" in prefix:
        tool = ("uv", "tool")
        return _tool("uv tool", location, (*tool, "upgrade", NAME), (*tool, "uninstall", NAME))
    return _package(found, location)


def _tool(
    kind: Kind, location: str, update: tuple[str, ...], remove: tuple[str, ...]
) -> Installation:
    return Installation(kind=kind, location=location, update=(update,), remove=remove)


def _package(found: Distribution, location: str) -> Installation:
    pip = _pip(found)
    remove = (*pip, "uninstall", *(() if pip[0] == "uv" else ("-y",)), NAME)
    origin: dict[str, Any] = json.loads(found.read_text("direct_url.json") or "{}")
    folder = str(origin.get("url", "")).removeprefix("file://")
    if origin.get("dir_info", {}).get("editable"):
        steps: list[tuple[str, ...]] = [(*pip, "install", "--upgrade", "-e", folder)]
        if (Path(folder) / ".git").exists():
            steps.insert(0, ("git", "-C", folder, "pull", "--ff-only"))
        return Installation(kind="checkout", location=folder, update=tuple(steps), remove=remove)
    if "vcs_info" in origin:
        source = f"{NAME} @ {origin['vcs_info'].get('vcs', 'git')}+{origin['url']}"
        update = (*pip, "install", "--upgrade", source)
        return Installation(kind="repository", location=location, update=(update,), remove=remove)
    if origin:  # a wheel or a folder that somebody had on this machine: only they have the next one
        return Installation(kind="package", location=location, remove=remove)
    update = (*pip, "install", "--upgrade", NAME)
    return Installation(kind="package", location=location, update=(update,), remove=remove)


def _pip(found: Distribution) -> tuple[str, ...]:
    if (found.read_text("INSTALLER") or "").strip() == "uv":
        return ("uv", "pip")
    return (sys.executable, "-m", "pip")
