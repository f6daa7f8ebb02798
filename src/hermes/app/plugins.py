"""Plug-ins of outside authors as plain values: what each package or file brings and needs."""

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from hermes.core.messages import Value
from hermes.core.plugins import PluginCheck, check_plugins

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?P<rest>[^;]*)(?:;(?P<when>.*))?")


class PluginPart(Value, kw_only=True, frozen=True):
    """One entry point, such as a tool."""

    group: str
    """Such as `hermes.tools`; empty when the file could not be read."""
    name: str
    target: str = ""
    """`module:attribute` of a package."""
    status: str
    """`ok` or `absent`."""
    why: str = ""


class PluginOverview(Value, kw_only=True, frozen=True):
    """A distribution or a file with everything that it brings."""

    name: str
    kind: str
    """`package` or `file`."""
    origin: str
    version: str = ""
    summary: str = ""
    needs: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Needed packages that are not installed."""
    parts: tuple[PluginPart, ...] = ()

    @property
    def problems(self) -> list[str]:
        absent = [f"{each.name}: {each.why}" for each in self.parts if each.status != "ok"]
        lacking = [f"it needs the package {each}, which is not installed" for each in self.missing]
        return absent + lacking


def list_plugins(home: Path) -> list[PluginOverview]:
    """Loads every plug-in; one that raises is listed as absent, with its reason."""
    by_origin: dict[str, list[PluginCheck]] = {}
    for check in check_plugins(home):
        by_origin.setdefault(check.origin, []).append(check)
    found = [_describe(origin, checks) for origin, checks in by_origin.items()]
    return sorted(found, key=lambda each: (each.kind, each.name))


def _describe(origin: str, checks: list[PluginCheck]) -> PluginOverview:
    parts = tuple(
        PluginPart(
            group=f"hermes.{each.group}" if each.group else "",
            name=each.name,
            target=each.target,
            status="absent" if each.problem else "ok",
            why=each.problem,
        )
        for each in checks
    )
    if origin.startswith("/"):
        return PluginOverview(name=Path(origin).stem, kind="file", origin=origin, parts=parts)
    try:
        own = metadata.distribution(origin.partition("-")[0])
    except metadata.PackageNotFoundError:
        return PluginOverview(name=origin, kind="package", origin=origin, parts=parts)
    needs = tuple(_required_names(own.requires or []))
    return PluginOverview(
        name=own.metadata["Name"],
        kind="package",
        origin=origin,
        version=own.version,
        summary=own.metadata["Summary"] or "",
        needs=needs,
        missing=tuple(each for each in needs if not _is_installed(each)),
        parts=parts,
    )


def _required_names(requirements: list[str]) -> Iterator[str]:
    """Return the required packages, without those of extras, which may be left out on purpose."""
    for text in requirements:
        found = _REQUIREMENT.match(text)
        if found and "extra" not in (found["when"] or ""):
            yield found["name"]


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
