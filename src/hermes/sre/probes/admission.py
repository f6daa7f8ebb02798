"""Admits probes that only read, so that the policy is not asked for each run.

The same decision gives the confinement profile that the kernel enforces, where it can.
"""

from collections.abc import Sequence

from msgspec.structs import asdict, replace

from hermes.core.actions import Action, ConfinementProfile, Decision, KernelSupport, Policy
from hermes.core.incident import WATCH_RUN
from hermes.core.messages import Risk, ToolCall, Value
from hermes.core.protocols import ConfinesCommands, Environment
from hermes.core.run_ids import new_id
from hermes.sre.probes.native import LOCAL_ENVIRONMENT, can_run_natively
from hermes.sre.probes.probe import PluginProbe, Probe, shell_command_of

READ_EFFECTS = frozenset({"read", "network-local", "network-read"})
"""Effects that a probe may have, by the names of the policy."""
UNCONFINED_KINDS = frozenset({"config"})
"""Kinds whose programs open logs for writing or read other processes, only to check."""


class AdmittedProbe(PluginProbe, frozen=True, omit_defaults=True):
    """A probe whose command may run. Files cannot declare it: only `admit_probes` creates it, and
    code that wrote the command itself. Other commands are never run."""

    profile: ConfinementProfile | None = None
    """The confinement that the kernel enforces; None where it cannot."""


def mark_admitted(probe: Probe, profile: ConfinementProfile | None = None) -> AdmittedProbe:
    return AdmittedProbe(**asdict(probe) | {"profile": profile})


class AdmissionResult(Value, kw_only=True, frozen=True):
    probes: tuple[Probe, ...] = ()
    refused: tuple[str, ...] = ()
    """Each refused probe with the reason, in words."""


async def admit_probes(
    probes: Sequence[Probe], policy: Policy, environment: Environment
) -> AdmissionResult:
    """Built-in kinds only read; the policy decides on declared commands and those of plug-ins.

    A probe is refused for its effects, never because the kernel cannot confine it: probes also run
    on old kernels. Built-in kinds are confined on this host only; elsewhere a shell for each would
    be too expensive.
    """
    taken: list[Probe] = []
    refused: list[str] = []
    for probe in probes:
        own = not probe.runs_foreign_command
        why = "" if own else _objection(policy.decide(_probe_action(probe, environment, None)))
        if why:
            refused.append(f"{probe.name}: {why}")
            continue
        asked_natively = can_run_natively(environment, probe, "") or probe.kind in UNCONFINED_KINDS
        free = own and (asked_natively or environment.name != LOCAL_ENVIRONMENT)
        profile = None if free else await _profile(probe, policy, environment)
        taken.append(probe if own and profile is None else mark_admitted(probe, profile))
    return AdmissionResult(probes=tuple(taken), refused=tuple(refused))


async def _profile(
    probe: Probe, policy: Policy, environment: Environment
) -> ConfinementProfile | None:
    """The confinement of the probe; None where the environment does not support it."""
    if not isinstance(environment, ConfinesCommands):
        return None
    kernel = await environment.kernel_support()
    decision = policy.decide(_probe_action(probe, environment, kernel))
    if decision.profile is None or decision.enforced not in ("yes", "partly"):
        return None
    # It runs for as long as the watch, in which people change files of their projects.
    return replace(decision.profile, judged_files=(), judged_folders=())


def _probe_action(probe: Probe, environment: Environment, kernel: KernelSupport | None) -> Action:
    return Action(
        call=ToolCall(new_id("probe"), "terminal", {"command": shell_command_of(probe)}),
        risk=Risk.CHANGE,
        run=WATCH_RUN,
        origin="incident",
        environment=environment.name,
        target=environment.target,
        isolated=environment.isolated,
        reviewed=not probe.runs_foreign_command,
        kernel=kernel,
    )


def _objection(decision: Decision) -> str:
    if more := sorted(set(decision.effects) - READ_EFFECTS):
        return f"a probe may only read, and this is {', '.join(more)} ({decision.rule})"
    if decision.verdict != "allow":
        return f"the policy says {decision.verdict}: {decision.reason} ({decision.rule})"
    return "" if decision.effects else "the policy does not say that it only reads"
