"""Which probes may be asked without a decision a look: those that only read, decided once.

The same decision says what the kernel holds a probe to, where it can.
"""

from collections.abc import Sequence

from hermes.core.actions import Action, Decision, KernelSupport, Policy, Profile
from hermes.core.ids import new_id
from hermes.core.messages import Risk, ToolCall, Value
from hermes.core.protocols import ConfinesCommands, Environment
from hermes.sre.probes.command import command_of
from hermes.sre.probes.native import LOCAL, can_ask
from hermes.sre.probes.probe import Probe

RUN = "watch"
READS = frozenset({"read", "network-local", "network-read"})
"""What a look may do, in the words of the policy."""
UNCONFINED = frozenset({"config"})
"""Kinds whose programs open logs for writing, or look into other processes, only to check."""


class Vouched(Probe, frozen=True, omit_defaults=True):
    """A command that somebody has looked at. No file can say so: only `admit` does, and code that
    wrote the command itself. Others are never run."""

    profile: Profile | None = None
    """What the kernel holds it to; None where it cannot."""


def vouch(probe: Probe, profile: Profile | None = None) -> Vouched:
    fields = {field: getattr(probe, field) for field in Probe.__struct_fields__}
    return Vouched(**fields, profile=profile)


class Admission(Value, kw_only=True, frozen=True):
    probes: tuple[Probe, ...] = ()
    refused: tuple[str, ...] = ()
    """Probe and reason, in words."""


async def admit(probes: Sequence[Probe], policy: Policy, environment: Environment) -> Admission:
    """Own kinds are written here and only read; a declared command is looked at closely.

    A look is refused for what it does, never because the kernel cannot hold it: no watch goes blind
    on an old kernel. Own kinds are held on this host alone; elsewhere a shell for each would cost
    more than they do.
    """
    taken: list[Probe] = []
    refused: list[str] = []
    for probe in probes:
        own = probe.kind != "command"
        why = "" if own else _objection(policy.decide(_action(probe, environment, None)))
        if why:
            refused.append(f"{probe.name}: {why}")
            continue
        asked_natively = can_ask(environment, probe, "") or probe.kind in UNCONFINED
        free = own and (asked_natively or environment.name != LOCAL)
        profile = None if free else await _profile(probe, policy, environment)
        taken.append(probe if own and profile is None else vouch(probe, profile))
    return Admission(probes=tuple(taken), refused=tuple(refused))


async def _profile(probe: Probe, policy: Policy, environment: Environment) -> Profile | None:
    """What the kernel of the environment holds the probe to; None where it cannot."""
    if not isinstance(environment, ConfinesCommands):
        return None
    kernel = await environment.kernel_support()
    decision = policy.decide(_action(probe, environment, kernel))
    return decision.profile if decision.enforced in ("yes", "partly") else None


def _action(probe: Probe, environment: Environment, kernel: KernelSupport | None) -> Action:
    return Action(
        call=ToolCall(new_id("probe"), "terminal", {"command": command_of(probe)}),
        risk=Risk.CHANGE,
        run=RUN,
        origin="incident",
        environment=environment.name,
        target=environment.target,
        isolated=environment.isolated,
        kernel=kernel,
    )


def _objection(decision: Decision) -> str:
    if more := sorted(set(decision.effects) - READS):
        return f"a probe may only read, and this is {', '.join(more)} ({decision.rule})"
    if decision.verdict != "allow":
        return f"the policy says {decision.verdict}: {decision.reason} ({decision.rule})"
    return "" if decision.effects else "the policy does not say that it only reads"
