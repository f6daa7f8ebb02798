"""The same rules, where the way back is known before: whoever is asked about a step is shown it."""

from collections.abc import Mapping

from msgspec.structs import replace

from hermes.core.actions import Action, Decision, HearsText, NotesDeeds, Policy
from hermes.core.messages import ToolCall
from hermes.policy.verdict import Verdict


class WaysBack:
    """Fulfils `Policy`, `NotesDeeds` and `HearsText`. `known`: by the id of a call."""

    def __init__(self, policy: Policy, known: Mapping[str, str]) -> None:
        self._policy, self._known = policy, known

    def decide(self, action: Action) -> Decision:
        decision, undo = self._policy.decide(action), self._known.get(action.call.id, "")
        return replace(decision, undo=undo) if isinstance(decision, Verdict) else decision

    def started(self, action: Action) -> None:
        if isinstance(self._policy, NotesDeeds):
            self._policy.started(action)

    def heard(self, run: str, text: str, trusted: bool, call: ToolCall | None = None) -> None:
        if isinstance(self._policy, HearsText):
            self._policy.heard(run, text, trusted, call)
