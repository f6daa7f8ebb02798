"""Checks whether the kernel of an environment can enforce a profile, and what a verdict rests on
besides the program tables."""

import posixpath
import re
from typing import Literal

from hermes.core.actions import ConfinementProfile, KernelSupport
from hermes.policy.actions.action_effects import INTERPRETER_PROGRAMS, ActionEffects
from hermes.policy.commands.effects import word_set

EnforcementLevel = Literal["yes", "partly", "no"]
LANDLOCK_SIGNAL_VERSION, LANDLOCK_DEVICE_VERSION = 6, 5
"""Landlock versions that introduced a right."""


def check_enforcement(
    profile: ConfinementProfile, kernel: KernelSupport, unread: str = ""
) -> tuple[EnforcementLevel, str]:
    """Return whether this kernel can enforce the profile, and what it cannot enforce.

    `unread` says which code was not read that could run.
    """
    if profile.unrestricted:
        return "no", profile.unrestricted
    if obstacle := find_obstacle(profile, kernel):
        return "no", obstacle
    gaps = [f"{peer} can change things on its behalf" for peer in profile.peers]
    gaps += _network_gaps(profile)
    gaps += [unread] if unread else []
    if kernel.visible_secrets and not (profile.own_secrets or profile.root_launcher):
        gaps.append(f"files with secrets stay readable ({kernel.visible_secrets})")
    if kernel.landlock < LANDLOCK_SIGNAL_VERSION and not profile.may_signal:
        gaps.append("some ways to send a signal (Landlock 6 is needed)")
    if kernel.landlock < LANDLOCK_DEVICE_VERSION:
        gaps.append("control of devices (Landlock 5 is needed)")
    return ("partly" if gaps else "yes"), "; ".join(gaps)


def _network_gaps(profile: ConfinementProfile) -> list[str]:
    """The kernel's rules cover TCP ports, but neither hosts nor datagrams."""
    datagrams = "UDP datagrams to any host"
    if profile.network == "any":
        return [f"TCP connections to any host and port, {datagrams}"]
    if profile.network == "ports":
        ports = ", ".join(map(str, profile.ports))
        return [f"which host it connects to on TCP port {ports}, {datagrams}"]
    return [datagrams] if "interfaces" in profile.special else []


def find_obstacle(profile: ConfinementProfile, kernel: KernelSupport) -> str:
    """Return why the kernel cannot confine it, although it has limits; empty when it can."""
    if profile.root_launcher:
        return ""
    if kernel.reason:
        return kernel.reason
    if "processes" in profile.special and not kernel.root:
        return "what it asks about other processes is hidden from a confined command"
    if profile.gains_privileges and not kernel.root:
        return (
            f"{profile.gains_privileges} has to gain rights, which no confined command of an "
            "ordinary user can"
        )
    return ""


_SHELL_EXPANSION = re.compile(r"[$`]|\b(?:export|declare|read|printf -v|source|eval)\b")
_CONFIGURED_PROGRAMS = word_set(
    "git make gmake npm yarn pnpm cargo go terraform tofu terragrunt tf packer pulumi helmfile"
    " ansible ansible-inventory pip pip3 poetry uv composer mvn gradle"
)


def verdict_basis(effects: ActionEffects) -> str:
    """Return what the verdict depends on besides the program tables; empty for nothing."""
    if _SHELL_EXPANSION.search(effects.command):
        return "variables and expansions of the shell"
    for step in effects.steps:
        program = posixpath.basename(step.program)
        if program in _CONFIGURED_PROGRAMS:
            return f"the configuration that {program} finds where it runs"
        if program.rstrip("0123456789.") in INTERPRETER_PROGRAMS - {
            "sed",
            "awk",
            "psql",
            "redis-cli",
        }:
            return f"what {program} loads when it starts"
    return ""
