"""Which probes may be asked without a decision a look: those that only read, decided once."""

from collections.abc import Sequence

from hermes.core.actions import Action, Policy
from hermes.core.ids import new_id
from hermes.core.messages import Risk, ToolCall, Value
from hermes.core.protocols import Environment
from hermes.sre.probes.command import command_of
from hermes.sre.probes.probe import Probe

RUN = "watch"
READS = frozenset({"read", "network-local", "network-read"})
"""What a look may do, in the words of the policy."""


class Vouched(Probe, frozen=True):
    """A command that somebody has looked at. No file can say so: only `admit` does, and code that
    wrote the command itself. Others are never run."""


def vouch(probe: Probe) -> Vouched:
    return Vouched(**{field: getattr(probe, field) for field in probe.__struct_fields__})


class Admission(Value, kw_only=True, frozen=True):
    probes: tuple[Probe, ...] = ()
    refused: tuple[str, ...] = ()
    """Probe and reason, in words."""


def admit(probes: Sequence[Probe], policy: Policy, environment: Environment) -> Admission:
    """Own kinds are written here and only read; a command of somebody's is looked at closely."""
    taken: list[Probe] = []
    refused: list[str] = []
    for probe in probes:
        why = _objection(probe, policy, environment) if probe.kind == "command" else ""
        if why:
            refused.append(f"{probe.name}: {why}")
        else:
            taken.append(vouch(probe) if probe.kind == "command" else probe)
    return Admission(probes=tuple(taken), refused=tuple(refused))


def _objection(probe: Probe, policy: Policy, environment: Environment) -> str:
    command = command_of(probe)
    decision = policy.decide(
        Action(
            call=ToolCall(new_id("probe"), "terminal", {"command": command}),
            risk=Risk.CHANGE,
            run=RUN,
            origin="incident",
            environment=environment.name,
            target=environment.target,
            isolated=environment.isolated,
        )
    )
    if more := sorted(set(decision.effects) - READS):
        return f"a probe may only read, and this is {', '.join(more)} ({decision.rule})"
    if decision.verdict != "allow":
        return f"the policy says {decision.verdict}: {decision.reason} ({decision.rule})"
    return "" if decision.effects else "the policy does not say that it only reads"
