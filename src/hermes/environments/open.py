"""Opens the environment that the settings name, and selects the variables of its commands."""

import re
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

from hermes.core.actions import KernelSupport
from hermes.core.errors import SettingsError
from hermes.core.plugins import PluginWithSettings, load_plugin, own_settings
from hermes.core.protocols import Environment
from hermes.environments.settings import TerminalSettings

ALWAYS_PASSED_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
"""Variables that most programs need and that contain no secrets."""
CLIENT_PASSWORD_VARIABLES = frozenset({"REDISCLI_AUTH", "PGPASSWORD", "MYSQL_PWD"})
"""What clients of databases read: `.env` may keep them for commands, by their exact name."""

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(?:KEY|KEY_ID|_DSN|_AUTH|^DATABASE_URL)\Z"
)
_WILDCARDS = frozenset("*?[")


def select_variables(
    ours: Mapping[str, str], granted: Sequence[str] = (), withheld: Collection[str] = ()
) -> dict[str, str]:
    """The variables of a command.

    `granted` is set by the operator: an exact name is passed even if it looks like a secret; a
    pattern never matches one. `withheld` are the names of our own keys, which are never passed,
    except granted ones that are no keys of ours but what clients of databases read.
    """
    chosen = {"TERM": "dumb"}
    for name, value in ours.items():
        if name in withheld and not (name in granted and name in CLIENT_PASSWORD_VARIABLES):
            continue
        if name in granted or (
            not _looks_secret(name) and _matches(name, (*ALWAYS_PASSED_VARIABLES, *granted))
        ):
            chosen[name] = value
    chosen.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return chosen


def _looks_secret(name: str) -> bool:
    return _SECRET_NAME.search(name.upper()) is not None


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Most patterns are whole names, which need no regular expression."""
    return any(
        name == pattern if _WILDCARDS.isdisjoint(pattern) else fnmatchcase(name, pattern)
        for pattern in patterns
    )


@dataclass(frozen=True)
class EnvironmentOpening:
    """What an environment is opened with."""

    settings: TerminalSettings
    directory: Path
    """The current folder of the user: `terminal.cwd: .` on this machine."""
    home: Path
    """The folder for data that must outlive this process."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The variables of commands, without our keys."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Keys of the cloud services."""
    own: Any = None
    """The section `terminal.<name>` of a plug-in, as the struct that it declares."""
    beside: Environment | None = None
    """An open environment of this process that stays open longer; its helper may be shared."""

    @property
    def folder(self) -> Path:
        """The first working folder on this machine."""
        return self.directory / Path(self.settings.cwd).expanduser()


Opening = EnvironmentOpening
"""The earlier name, which plug-ins may still import."""


def granted_variables(opening: EnvironmentOpening) -> dict[str, str]:
    """Only the variables that the operator granted: the usual ones describe this machine."""
    return {
        name: value
        for name, value in opening.variables.items()
        if _matches(name, opening.settings.pass_variables)
        and not _matches(name, ALWAYS_PASSED_VARIABLES)
    }


async def why_not(kind: str, opening: EnvironmentOpening) -> str | None:
    """Return what is missing for a kind of environment; None when nothing is known to be
    missing."""
    opener = load_plugin("environments", kind, opening.home)
    check: Callable[[EnvironmentOpening], Awaitable[str | None]] | None
    check = getattr(sys.modules[opener.__module__], "why_not", None)
    return await check(opening) if check else None


def expected_kernel_support(kind: str) -> KernelSupport:
    """Return what a kind of environment can enforce, as far as that is known without opening
    one."""
    with suppress(SettingsError):
        opener = load_plugin("environments", kind)
        check = getattr(sys.modules[opener.__module__], "expected_kernel_support", None)
        if check:
            return cast(KernelSupport, check())
    return KernelSupport(reason=f"commands in {kind} are not confined by the kernel")


def open_environment(opening: EnvironmentOpening) -> Environment:
    """Raises `SettingsError` for an unknown kind. Entering it may raise `EnvironmentFailed`."""
    name = opening.settings.backend
    opener = load_plugin("environments", name, opening.home)
    if isinstance(opener, PluginWithSettings):
        section = getattr(opening.settings, name, None)
        opening = replace(opening, own=own_settings(opener, section, f"terminal.{name}"))
    return cast(Environment, opener(opening))
