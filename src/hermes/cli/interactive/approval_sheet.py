"""What a person reads before they answer. Our own bar begins every row, so no argument can pass
for the prompt."""

from dataclasses import dataclass
from datetime import UTC, datetime

from hermes.cli.render_ink import Ink
from hermes.cli.render_lines import duration
from hermes.cli.render_safe import visible, wrap
from hermes.core.actions import Action, not_for_good
from hermes.core.events.approvals import ApprovalRequested
from hermes.policy.approvals_request import shown_of

ROWS = 24
"""Rows of a call that are shown before its middle is left out."""


@dataclass(frozen=True)
class Sheet:
    request: ApprovalRequested
    action: Action
    announced: float = 0.0
    """Seconds after which it goes on by itself."""
    objection: str = ""
    """Why a yes of the person who reads it would not count."""

    def shown(self, width: int, ink: Ink, *, whole: bool) -> str:
        rows = [
            *(ink.yellow(f"┃ {row}") for row in _rows(self._head(), width)),
            *(f"┃ {row}" for row in self._body(width, whole=whole)),
            *(ink.dim(f"┃ {row}") for line in self._facts() for row in _rows(line, width)),
        ]
        return "\n".join(rows)

    def _head(self) -> str:
        action = self.action
        place = f"{action.environment} ({action.target})"
        who = action.call.name
        if "/" in action.run:
            who = f"{action.run.partition('/')[2]} (a subagent): {who}"
        does = "will run" if self.announced else "wants to run"
        return f"{who} {does} on {place} · risk: {action.risk.value}"

    def _body(self, width: int, *, whole: bool) -> list[str]:
        call = self.action.call
        text = shown_of(call, self.action.command)
        rows = _rows(f"$ {text}" if set(call.arguments) == {"command"} else text, width)
        if whole or len(rows) <= ROWS:
            return rows
        half = ROWS // 2
        left_out = f"… {len(rows) - 2 * half} ROWS ARE NOT SHOWN: answer v to view all of it …"
        return [*rows[:half], left_out, *rows[-half:]]

    def _facts(self) -> list[str]:
        request = self.request
        facts = [f"effects: {', '.join(request.effects)}"] if request.effects else []
        facts.append(f"rule {request.rule}" + (f": {request.reason}" if request.reason else ""))
        facts.append(f"undo: {request.undo or 'no undo known'}")
        if self.announced:
            facts.append(f"goes on in {duration(self.announced)} unless somebody stops it")
        else:
            facts += self._who()
        return [*facts, f"{request.approval}"]

    def _who(self) -> list[str]:
        request, facts = self.request, []
        if request.approvers or request.count > 1:
            who = ", ".join(request.approvers) or "anybody"
            facts.append(f"needs {request.count} of: {who}")
        if request.until is not None:
            left = max((request.until - datetime.now(UTC)).total_seconds(), 0.0)
            facts.append(f"no answer within {duration(left)} is a no")
        if self.objection:
            facts.append(f"you cannot approve it: {self.objection}")
        elif why := not_for_good(request):
            facts.append(f"not for good: {why}")
        return facts


def _rows(text: str, width: int) -> list[str]:
    return wrap(visible(text), width)
