"""The gate as a trusted playbook meets it: its author vouches for the words, its kinds for values.

What a model repeats from a log is somebody else's words, and asks. A playbook repeats nothing: its
commands were written, tried and proved before, and what it fills in was found by its own looks,
fits a kind (a unit, a path, a number) and stands quoted. So where a rule asks because of whose
words they are, it does not ask of a playbook. All other rules hold for both.
"""

from msgspec.structs import replace

from hermes.core.actions import Action, Decision, HearsText, NotesDeeds, Policy
from hermes.core.messages import ToolCall


class ByTheBook:
    """Fulfils `Policy`, `NotesDeeds` and `HearsText`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def decide(self, action: Action) -> Decision:
        return self._policy.decide(_unread(action))

    def started(self, action: Action) -> None:
        if isinstance(self._policy, NotesDeeds):
            self._policy.started(_unread(action))

    def heard(self, run: str, text: str, trusted: bool, call: ToolCall | None = None) -> None:
        """What it reads is still suspect to whoever comes after it."""
        if isinstance(self._policy, HearsText):
            self._policy.heard(run, text, trusted, call)


def _unread(action: Action) -> Action:
    """The same deed in a run that has read nothing."""
    return replace(action, run=f"{action.run.partition('/')[0]}#playbook")
