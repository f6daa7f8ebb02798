"""Admits probes that only read, so that the policy is not asked for each run.

The same decision gives the confinement profile that the kernel enforces, where it can.
"""

from collections.abc import Sequence

from msgspec.structs import asdict, replace

from hermes.core.actions import (
    Action,
    ConfinementProfile,
    DecidesTogether,
    Decision,
    KernelSupport,
    Policy,
)
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
    foreign = [each for each in probes if each.runs_foreign_command]
    confined = [each for each in probes if _is_confined(each, environment)]
    kernel: KernelSupport | None = None
    if confined and isinstance(environment, ConfinesCommands):
        kernel = await environment.kernel_support()
    decisions = await _decide_all(
        policy,
        [
            *(_probe_action(each, environment, None) for each in foreign),
            *(_probe_action(each, environment, kernel) for each in confined if kernel),
        ],
    )
    judged = dict(zip(map(id, foreign), decisions, strict=False))
    profiles = dict(zip(map(id, confined), decisions[len(foreign) :], strict=False))
    taken: list[Probe] = []
    refused: list[str] = []
    for probe in probes:
        own = not probe.runs_foreign_command
        if why := "" if own else _objection(judged[id(probe)]):
            refused.append(f"{probe.name}: {why}")
            continue
        profile = _profile(profiles.get(id(probe)))
        taken.append(probe if own and profile is None else mark_admitted(probe, profile))
    return AdmissionResult(probes=tuple(taken), refused=tuple(refused))


def _is_confined(probe: Probe, environment: Environment) -> bool:
    if probe.runs_foreign_command:
        return True
    asked_natively = can_run_natively(environment, probe, "") or probe.kind in UNCONFINED_KINDS
    return not asked_natively and environment.name == LOCAL_ENVIRONMENT


async def _decide_all(policy: Policy, actions: Sequence[Action]) -> Sequence[Decision]:
    if isinstance(policy, DecidesTogether):
        return await policy.decide_all(actions)
    return [policy.decide(each) for each in actions]


def _profile(decision: Decision | None) -> ConfinementProfile | None:
    """The confinement of a probe; None where the environment does not support it."""
    if decision is None or decision.profile is None:
        return None
    if decision.enforced not in ("yes", "partly"):
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
