"""A simple policy for tests: it allows reading and isolated environments, and asks for the rest."""

from hermes.core.actions import Action, Decision
from hermes.core.messages import Risk


class RiskPolicy:
    def decide(self, action: Action) -> Decision:
        if action.risk is Risk.READ:
            return Decision(verdict="allow", rule="reading-is-free")
        if action.isolated:
            return Decision(verdict="allow", rule="isolated-place")
        return Decision(
            verdict="ask",
            rule="changes-ask",
            reason=f"it can change {action.target} ({action.environment})",
        )
