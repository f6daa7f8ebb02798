"""Permissions in an editor: the modes of a session, what a person refused, and their answers."""

import posixpath
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import anyio
from acp.exceptions import RequestError
from acp.schema import PermissionOption
from msgspec.structs import replace

from hermes.acp.updates import SessionUpdates
from hermes.core.actions import (
    READ_ONLY_EFFECTS,
    Action,
    Approval,
    ApprovalScope,
    Decision,
    Policy,
    PolicyWrapper,
    approval_objection,
    why_not_always,
)
from hermes.core.errors import ToolError
from hermes.core.events.approvals import ApprovalRequested
from hermes.core.events.tools import ToolRequested
from hermes.core.messages import ToolCall

ASK_MODE, LOOK_MODE = "ask", "look"
MODES = {
    ASK_MODE: "Asks before it does what the rules ask about",
    LOOK_MODE: "Only reads; nothing is changed",
}
REFUSED_RULE = "refused-in-the-editor"
MAX_REMEMBERED_DECISIONS = 200
UNKNOWN_EFFECTS = frozenset({"unknown", "exec-dynamic"})
ALLOW_ONCE, ALLOW_ALWAYS, REJECT = "allow_once", "allow_always", "reject_once"
SCOPES: dict[str, ApprovalScope] = {ALLOW_ONCE: "once", ALLOW_ALWAYS: "always"}
NOBODY = "nobody"
UNANSWERED = (
    "the editor left a request for permission unanswered, so it is not asked again in this "
    "session; say in your answer what needs permission, or do without it"
)


class EditorPolicy(PolicyWrapper):
    """The rules of the application with the mode of the session, and what the person refused.

    A refusal holds for the files that would have been changed, whatever tool tries it, until the
    person speaks again. `look` are the rules of the mode in which nothing is changed.
    """

    def __init__(self, policy: Policy, look: Policy) -> None:
        super().__init__(policy)
        self._look = look
        self._decisions: OrderedDict[str, Decision] = OrderedDict()
        self._refused: set[str] = set()
        self.mode = ASK_MODE

    def decide(self, action: Action) -> Decision:
        looking = self.mode == LOOK_MODE
        decision = (self._look if looking else self._policy).decide(action)
        if looking and decision.verdict == "deny":
            why = f"the session is in the mode {LOOK_MODE}: {decision.reason}"
            return replace(decision, reason=why)
        if decision.verdict == "deny":
            return decision
        if path := self._refused_path(action, decision):
            why = f"the person refused a change of {path}; ask them before you try another way"
            return replace(decision, verdict="deny", rule=REFUSED_RULE, reason=why)
        self._decisions[action.call.id] = decision
        while len(self._decisions) > MAX_REMEMBERED_DECISIONS:
            self._decisions.popitem(last=False)
        return decision

    def refuse(self, action: Action) -> None:
        """The person said no: nothing else may change the same files."""
        decision = self._decisions.get(action.call.id)
        if decision is not None and decision.profile is not None:
            self._refused |= set(decision.profile.writable)
        path = action.call.arguments.get("path")
        if isinstance(path, str) and path and decision and not _only_reads(decision):
            self._refused.add(posixpath.normpath(posixpath.join(action.cwd, path)))

    def forget_refusals(self) -> None:
        self._refused.clear()

    def _refused_path(self, action: Action, decision: Decision) -> str:
        if not self._refused or _only_reads(decision):
            return ""
        profile = decision.profile
        changed = profile.writable if profile is not None else ()
        unknown = profile is None or profile.unrestricted or UNKNOWN_EFFECTS & {*decision.effects}
        text = f"{action.command}\n{action.call.arguments}" if unknown else ""
        return next(
            (
                path
                for path in sorted(self._refused)
                if any(_overlap(path, each) for each in changed) or posixpath.basename(path) in text
            ),
            "",
        )


def _only_reads(decision: Decision) -> bool:
    return bool(decision.effects) and READ_ONLY_EFFECTS.issuperset(decision.effects)


def _overlap(one: str, other: str) -> bool:
    one, other = one.rstrip("/") + "/", other.rstrip("/") + "/"
    return one.startswith(other) or other.startswith(one)


ReadText = Callable[[str], Awaitable[str | None]]
"""The text of a file as the person sees it now; None when there is none."""


class EditorApprover:
    """Implements `AnswersApprovals`: asks the person at the editor.

    An answer that was not offered is a no. A client that leaves one request unanswered is asked no
    more.
    """

    def __init__(self, client: Any, session: str, updates: SessionUpdates) -> None:
        self._client = client
        self._session = session
        self._updates = updates
        self._unanswered = False
        self.person = ""
        """Who answers here: the user of this process."""
        self.refuse: Callable[[Action], None] = lambda action: None
        self.read_text: ReadText | None = None

    async def answer(
        self, action: Action, request: ApprovalRequested, announced: float = 0.0
    ) -> Approval:
        if self._unanswered:
            return Approval(approved=False, by=NOBODY, reason=UNANSWERED)
        call, offered = await self._describe(action, request, announced)
        chosen = await self._ask(call, offered, request.until if not announced else None)
        if chosen is None:
            return Approval(approved=False, by=NOBODY, reason=UNANSWERED)
        scope = SCOPES.get(chosen) if chosen in {each.option_id for each in offered} else None
        if scope is None:
            self.refuse(action)
        return Approval(approved=scope is not None, by=self.person, scope=scope or "once")

    async def choose(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask a question of the agent; None without an answer. Raises `ToolError` without
        choices: an editor has no other way to ask."""
        if not choices:
            raise ToolError("ask this in your answer; the person replies with their next message")
        if self._unanswered:
            return None
        options = [
            PermissionOption(option_id=f"choice-{number}", name=choice, kind=ALLOW_ONCE)
            for number, choice in enumerate(choices, 1)
        ]
        options.append(PermissionOption(option_id=REJECT, name="None of these", kind=REJECT))
        chosen = await self._ask(self._updates.question_call(question), options, None)
        known = {each.option_id: each.name for each in options[:-1]}
        return known.get(chosen or "")

    async def _describe(
        self, action: Action, request: ApprovalRequested, announced: float
    ) -> tuple[Any, list[Any]]:
        """The call that is asked about, and the answers that are offered."""
        asked = ToolRequested(run=action.run, call=action.call, command=action.command)
        for update in self._updates.start_call(asked):
            await self._client.session_update(self._session, update)
        before = await self._current_text(action.call)
        call, whole = self._updates.permission_call(action.run, action.call, request, before)
        options = []
        if whole and not approval_objection(request, self.person, approved=True):
            name = f"Run now (else in {announced:.0f} s)" if announced else "Allow once"
            options.append(PermissionOption(option_id=ALLOW_ONCE, name=name, kind=ALLOW_ONCE))
            if not announced and not why_not_always(request):
                options.append(
                    PermissionOption(
                        option_id=ALLOW_ALWAYS, name="Always allow exactly this", kind=ALLOW_ALWAYS
                    )
                )
        options.append(PermissionOption(option_id=REJECT, name="Reject", kind=REJECT))
        return call, options

    async def _current_text(self, call: ToolCall) -> str | None:
        path = call.arguments.get("path")
        if self.read_text is None or call.name != "write_file" or not isinstance(path, str):
            return None
        return await self.read_text(path)

    async def _ask(self, call: Any, options: Sequence[Any], until: datetime | None) -> str | None:
        """The chosen option, empty when the client cancelled; None when it did not answer."""
        left = _seconds_until(until)
        try:
            with anyio.move_on_after(left):
                response = await self._client.request_permission(
                    session_id=self._session, tool_call=call, options=list(options)
                )
                return str(getattr(response.outcome, "option_id", ""))
        except (RequestError, ConnectionError, ValueError):
            pass  # it cannot ask, or answered with something else
        except anyio.get_cancelled_exc_class():
            self._unanswered = self._unanswered or _seconds_until(until) <= 1.0
            raise
        self._unanswered = True
        return None


def _seconds_until(until: datetime | None) -> float:
    if until is None:
        return float("inf")
    return max((until - datetime.now(UTC)).total_seconds(), 0.0)
