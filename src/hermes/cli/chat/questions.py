"""Asks the user questions and approval requests in the chat, one at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

import anyio

from hermes.app.people import user_name
from hermes.cli.chat.terminals import ChatTerminal
from hermes.cli.render.terminal_text import TextStyle, clean, display_width, escape_invisible, wrap
from hermes.core.actions import Action, Approval, ApprovalScope, approval_objection, why_not_always
from hermes.core.events.approvals import ApprovalRequested
from hermes.plumbing.units import format_duration
from hermes.policy.approvals.request import render_call

AnswerType = TypeVar("AnswerType")


class _PendingQuestion(Generic[AnswerType]):
    def __init__(
        self, label: str, parse: Callable[[str], AnswerType | None], default: AnswerType
    ) -> None:
        self.label = label
        self.answer = default
        self.done = anyio.Event()
        self._parse = parse

    def try_answer(self, line: str) -> bool:
        answer = self._parse(line)
        if answer is None:
            return False
        self.answer = answer
        self.done.set()
        return True


class QuestionQueue:
    def __init__(self, terminal: ChatTerminal) -> None:
        self._terminal = terminal
        self._turn = anyio.Lock()
        self._open: _PendingQuestion[str] | None = None
        self._closed = False
        self.changed: Callable[[], None] = lambda: None
        """Called when a question opens or closes."""

    @property
    def label(self) -> str:
        """The prompt of the open question; empty when there is none."""
        return self._open.label if self._open else ""

    async def ask(
        self,
        text: str,
        label: str,
        parse: Callable[[str], str | None],
        *,
        default: str = "",
        known_answer: Callable[[], str | None] = lambda: None,
    ) -> str:
        """Ask and wait for the answer. `known_answer` is read when its turn comes."""
        async with self._turn:
            known = known_answer()
            if known is not None or self._closed:
                return known or default
            question = self._open = _PendingQuestion(label, parse, default)
            try:
                await self._terminal.print(text)
                self.changed()
                await question.done.wait()
                return question.answer
            finally:
                self._open = None
                self.changed()

    def try_answer(self, line: str) -> bool:
        """Answer the open question; False when the line is not a valid answer."""
        return self._open is not None and self._open.try_answer(line)

    def decline(self) -> bool:
        """Close the open question without an answer; False when there is none."""
        if self._open is None:
            return False
        self._open.done.set()
        return True

    def close(self) -> None:
        """Give every open and later question its default answer."""
        self._closed = True
        self.decline()


MAX_CALL_ROWS = 24
"""A longer call is shown without its middle."""


@dataclass(frozen=True)
class ApprovalPrompt:
    request: ApprovalRequested
    action: Action
    announced_s: float = 0.0
    """Seconds after which the action runs without an answer."""
    objection: str = ""
    """Why this user cannot approve it."""

    def render(self, width: int, style: TextStyle, *, full: bool) -> str:
        rows = [
            *(style.yellow(f"┃ {row}") for row in _wrapped_rows(self._head(), width)),
            *(f"┃ {row}" for row in self._body(width, full=full)),
            *(
                style.dim(f"┃ {row}")
                for line in self._facts()
                for row in _wrapped_rows(line, width)
            ),
        ]
        return "\n".join(rows)

    def _head(self) -> str:
        action = self.action
        environment = f"{action.environment} ({action.target})"
        who = action.call.name
        if "/" in action.run:
            who = f"{action.run.partition('/')[2]} (a subagent): {who}"
        does = "will run" if self.announced_s else "wants to run"
        return f"{who} {does} on {environment} · risk: {action.risk.value}"

    def _body(self, width: int, *, full: bool) -> list[str]:
        call = self.action.call
        text = render_call(call, self.action.command)
        rows = _wrapped_rows(f"$ {text}" if set(call.arguments) == {"command"} else text, width)
        if full or len(rows) <= MAX_CALL_ROWS:
            return rows
        half = MAX_CALL_ROWS // 2
        left_out = f"… {len(rows) - 2 * half} ROWS ARE NOT SHOWN: answer v to view all of it …"
        return [*rows[:half], left_out, *rows[-half:]]

    def _facts(self) -> list[str]:
        request = self.request
        facts = [f"effects: {', '.join(request.effects)}"] if request.effects else []
        facts.append(f"rule {request.rule}" + (f": {request.reason}" if request.reason else ""))
        facts.append(f"undo: {request.undo or 'no undo known'}")
        facts += [request.tested] if request.tested else []
        if self.announced_s:
            facts.append(f"runs in {format_duration(self.announced_s)} unless someone stops it")
        else:
            facts += self._who()
        return [*facts, f"{request.approval}"]

    def _who(self) -> list[str]:
        request, facts = self.request, []
        if request.approvers or request.count > 1:
            who = ", ".join(request.approvers) or "anyone"
            facts.append(f"needs {request.count} of: {who}")
        if request.until is not None:
            left = max((request.until - datetime.now(UTC)).total_seconds(), 0.0)
            facts.append(f"no answer within {format_duration(left)} is a no")
        if self.objection:
            facts.append(f"you cannot approve it: {self.objection}")
        elif why := why_not_always(request):
            facts.append(f"cannot be allowed permanently: {why}")
        return facts


def _wrapped_rows(text: str, width: int) -> list[str]:
    return wrap(escape_invisible(text), width)


_APPROVAL_WORDS: dict[str, ApprovalScope] = {
    "o": "once",
    "once": "once",
    "s": "session",
    "session": "session",
    "a": "always",
    "always": "always",
}
_DENIAL_WORDS = ("d", "deny", "n", "no", "stop")
_VIEW_WORDS = ("v", "view")


class TerminalApprover:
    """Implements `Answers`: asks the user of this terminal for approval. Requests queue up."""

    def __init__(self, questions: QuestionQueue, terminal: ChatTerminal, style: TextStyle) -> None:
        self._questions = questions
        self._terminal = terminal
        self._style = style
        self.by = clean(user_name())
        """Who answers here; the person, once it is known who the user is."""

    async def answer(
        self, action: Action, request: ApprovalRequested, announced: float = 0.0
    ) -> Approval:
        full = False
        while True:
            prompt = ApprovalPrompt(request, action, announced, self._objection(request))
            answer = await self._questions.ask(
                prompt.render(self._terminal.width - 2, self._style, full=full),
                self._label(request, announced),
                lambda line: self._parse_answer(line, request, announced),
                default="deny",
            )
            if answer != "view":
                break
            full = True
        scope = _APPROVAL_WORDS.get(answer)
        return Approval(approved=scope is not None, by=self.by, scope=scope or "once")

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask a question of the `clarify` tool; None when it was declined."""
        width = self._terminal.width - 2
        first, *others = wrap(escape_invisible(question), width - 3)
        rows = [f"❓ {first}", *(f"   {row}" for row in others)]
        for number, choice in enumerate(choices, start=1):
            rows += [f"   {number}. {row}" for row in wrap(escape_invisible(choice), width - 7)[:1]]
        hint = "number, or your own words" if choices else "your answer"

        def parse(line: str) -> str | None:
            words = line.strip()
            if words.isdecimal() and choices:
                chosen = int(words)
                return choices[chosen - 1] if 1 <= chosen <= len(choices) else None
            return words or None

        text = "\n".join(self._style.cyan(row) for row in rows)
        return await self._questions.ask(text, f"{hint} ❯ ", parse) or None

    def _objection(self, request: ApprovalRequested) -> str:
        return approval_objection(request, self.by, approved=True)

    def _parse_answer(self, line: str, request: ApprovalRequested, announced: float) -> str | None:
        """Return the answer; None when it is not valid for this request."""
        word = line.strip().lower()
        if word in _VIEW_WORDS:
            return "view"
        if self._objection(request):  # this user can only deny
            return "deny" if word in _DENIAL_WORDS else None
        if word in _DENIAL_WORDS or not word:
            return "deny"
        scope = _APPROVAL_WORDS.get(word)
        if scope == "once":
            return scope
        possible = not announced and (scope != "always" or not why_not_always(request))
        return scope if possible else None

    def _label(self, request: ApprovalRequested, announced: float) -> str:
        if announced:
            full, short = "[o]nce, now | [d]eny stops it ❯ ", "o | d ❯ "
        elif self._objection(request):
            full, short = "[d]eny, or wait for the others ❯ ", "d ❯ "
        elif why_not_always(request):
            full, short = "[o]nce | [s]ession | [d]eny (default) ❯ ", "o | s | d ❯ "
        else:
            full = "[o]nce | [s]ession | [a]lways | [d]eny (default) ❯ "
            short = "o | s | a | d ❯ "
        return full if display_width(full) < self._terminal.width - 4 else short
