"""What the user of the service may run as root on this machine, through the launcher of root.

The launcher (`confinement.root_command`) decides, from a file of root. Hermes asks it
what it would run, so that the policy knows; commands find a `sudo` that starts it.
"""

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from hermes.core.actions import KernelSupport
from hermes.environments.confinement.messages import ROOT_LAUNCHER_FOLDER, SUPPORT_OPTION

LAUNCHER_FILE = f"{ROOT_LAUNCHER_FOLDER}/root-command"
SHIM_FOLDER = f"{ROOT_LAUNCHER_FOLDER}/bin"
ASK_TIMEOUT_S = 10.0


def uses_root_launcher() -> bool:
    return os.geteuid() != 0 and Path(LAUNCHER_FILE).exists()


def with_shim(variables: Mapping[str, str]) -> Mapping[str, str]:
    """Variables with which commands find our `sudo` first, where the launcher is installed."""
    if not uses_root_launcher():
        return variables
    return {**variables, "PATH": f"{SHIM_FOLDER}:{variables.get('PATH', os.defpath)}"}


def add_root_commands(support: KernelSupport) -> KernelSupport:
    """Unchanged where no launcher is installed, or where it cannot confine commands."""
    if not uses_root_launcher():
        return support
    words = [f"{SHIM_FOLDER}/sudo", SUPPORT_OPTION]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(  # noqa: TID251 - no command of a person or a model
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ASK_TIMEOUT_S
        )
        if done.returncode == 0:
            found: dict[str, list[str]] = {"confined": [], "unconfined": [], "reader": []}
            for line in done.stdout.splitlines():
                kind, _, rest = line.partition(" ")
                found[kind].append(rest)
            return structs.replace(
                support,
                root_commands=tuple(found["confined"]),
                unconfined_root_commands=tuple(found["unconfined"]),
                root_readers=tuple(found["reader"]),
            )
    return support
