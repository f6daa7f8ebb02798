"""Asks the person at the terminal: may this be done, and what did you mean."""

from collections.abc import Sequence

from hermes.app.approving import user_name
from hermes.cli.interactive.approval_sheet import Sheet
from hermes.cli.interactive.questions import Questions
from hermes.cli.interactive.shapes import Terminal
from hermes.cli.render_ink import Ink
from hermes.cli.render_safe import cells, clean, visible, wrap
from hermes.core.actions import Action, Approval, Scope, not_for_good, objection
from hermes.core.events.approvals import ApprovalRequested

_YES: dict[str, Scope] = {"o": "once", "once": "once", "s": "session", "session": "session"}
_YES |= {"a": "always", "always": "always"}
_NO = ("d", "deny", "n", "no", "stop")
_VIEW = ("v", "view")


class TerminalApprover:
    """Fulfils `Answers`: one who can answer, among others. Its prompts queue up."""

    def __init__(self, questions: Questions, terminal: Terminal, ink: Ink) -> None:
        self._questions = questions
        self._terminal = terminal
        self._ink = ink
        self._by = clean(user_name())

    async def answer(
        self, action: Action, request: ApprovalRequested, announced: float = 0.0
    ) -> Approval:
        whole = False
        while True:
            sheet = Sheet(request, action, announced, self._objection(request))
            answer = await self._questions.put(
                sheet.shown(self._terminal.width - 2, self._ink, whole=whole),
                self._label(request, announced),
                lambda line: self._understood(line, request, announced),
                otherwise="deny",
            )
            if answer != "view":
                break
            whole = True
        scope = _YES.get(answer)
        return Approval(approved=scope is not None, by=self._by, scope=scope or "once")

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """What `clarify` asks; None when the person would not say."""
        width = self._terminal.width - 2
        first, *others = wrap(visible(question), width - 3)
        rows = [f"❓ {first}", *(f"   {row}" for row in others)]
        for number, choice in enumerate(choices, start=1):
            rows += [f"   {number}. {row}" for row in wrap(visible(choice), width - 7)[:1]]
        hint = "number, or your own words" if choices else "your answer"

        def understand(line: str) -> str | None:
            words = line.strip()
            if words.isdecimal() and choices:
                chosen = int(words)
                return choices[chosen - 1] if 1 <= chosen <= len(choices) else None
            return words or None

        text = "\n".join(self._ink.cyan(row) for row in rows)
        return await self._questions.put(text, f"{hint} ❯ ", understand) or None

    def _objection(self, request: ApprovalRequested) -> str:
        return objection(request, self._by, approved=True)

    def _understood(self, line: str, request: ApprovalRequested, announced: float) -> str | None:
        """What was meant; None when it is no answer to this question."""
        word = line.strip().lower()
        if word in _VIEW:
            return "view"
        if self._objection(request):  # nothing but a clear no counts from here
            return "deny" if word in _NO else None
        if word in _NO or not word:
            return "deny"
        scope = _YES.get(word)
        if scope == "once":
            return scope
        possible = not announced and (scope != "always" or not not_for_good(request))
        return scope if possible else None

    def _label(self, request: ApprovalRequested, announced: float) -> str:
        if announced:
            full, short = "[o]nce, now | [d]eny stops it ❯ ", "o | d ❯ "
        elif self._objection(request):
            full, short = "[d]eny, or wait for the others ❯ ", "d ❯ "
        elif not_for_good(request):
            full, short = "[o]nce | [s]ession | [d]eny (default) ❯ ", "o | s | d ❯ "
        else:
            full = "[o]nce | [s]ession | [a]lways | [d]eny (default) ❯ "
            short = "o | s | a | d ❯ "
        return full if cells(full) < self._terminal.width - 4 else short
