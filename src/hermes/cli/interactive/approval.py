"""Asks the person at the terminal: may this be done, and what did you mean."""

import os
import pwd
from collections.abc import Sequence

import msgspec

from hermes.cli.interactive.questions import Questions
from hermes.cli.interactive.shapes import Terminal
from hermes.cli.render_ink import Ink
from hermes.cli.render_safe import cells, clean, visible, wrap
from hermes.core.actions import Action, Approval, Decision
from hermes.core.messages import ToolCall

ROWS = 24
"""Rows of a call that are shown before its middle is left out."""
ANSWERS = {"o": "once", "once": "once", "s": "session", "session": "session"}
ANSWERS |= {"": "deny", "d": "deny", "deny": "deny", "n": "deny", "no": "deny"}
ANSWERS |= {"v": "view", "view": "view"}


class TerminalApprover:
    """An `Approver`. What was granted for a session is that very call and nothing like it."""

    def __init__(self, questions: Questions, terminal: Terminal, ink: Ink) -> None:
        self._questions = questions
        self._terminal = terminal
        self._ink = ink
        self._granted: set[bytes] = set()
        self._by = _user()

    async def __call__(self, action: Action, decision: Decision) -> Approval:
        same = _identity(action)
        whole = False
        while True:
            answer = await self._questions.put(
                self._shown(action, decision, whole=whole),
                self._label(),
                lambda line: ANSWERS.get(line.strip().lower()),
                otherwise="deny",
                settled=lambda: "session" if same in self._granted else None,
            )
            if answer != "view":
                break
            whole = True
        if answer == "session":
            self._granted.add(same)
        return Approval(
            approved=answer != "deny",
            by=self._by,
            scope="session" if answer == "session" else "once",
        )

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """What `clarify` asks; None when the person would not say."""
        width = self._terminal.width - 2
        first, *others = _rows(question, width - 3)
        rows = [f"❓ {first}", *(f"   {row}" for row in others)]
        for number, choice in enumerate(choices, start=1):
            rows += [f"   {number}. {row}" for row in _rows(choice, width - 7)[:1]]
        hint = "number, or your own words" if choices else "your answer"

        def understand(line: str) -> str | None:
            words = line.strip()
            if words.isdecimal() and choices:
                chosen = int(words)
                return choices[chosen - 1] if 1 <= chosen <= len(choices) else None
            return words or None

        text = "\n".join(self._ink.cyan(row) for row in rows)
        return await self._questions.put(text, f"{hint} ❯ ", understand) or None

    def forget(self) -> None:
        """Another session begins: nothing granted before counts in it."""
        self._granted.clear()

    def _label(self) -> str:
        full = "[o]nce | [s]ession | [d]eny (default) ❯ "
        return full if cells(full) < self._terminal.width - 4 else "o | s | d ❯ "

    def _shown(self, action: Action, decision: Decision, *, whole: bool) -> str:
        """Every row of it begins with our own bar, so no argument can pass for the prompt."""
        width = self._terminal.width - 2
        place = f"{action.environment} ({action.target})"
        head = f"{action.call.name} wants to run on {place} · risk: {action.risk.value}"
        why = f"rule {decision.rule}" + (f": {decision.reason}" if decision.reason else "")
        body = _body(action.call, width, whole=whole)
        rows = [
            *(self._ink.yellow(f"┃ {row}") for row in _rows(head, width)),
            *(f"┃ {row}" for row in body),
            *(self._ink.dim(f"┃ {row}") for row in _rows(why, width)),
        ]
        return "\n".join(rows)


def _body(call: ToolCall, width: int, *, whole: bool) -> list[str]:
    rows = [row for part in _parts(call) for row in _rows(part, width)]
    if whole or len(rows) <= ROWS:
        return rows
    half = ROWS // 2
    left_out = f"… {len(rows) - 2 * half} ROWS ARE NOT SHOWN: answer v to view all of it …"
    return [*rows[:half], left_out, *rows[-half:]]


def _parts(call: ToolCall) -> list[str]:
    """A lone command reads as a shell line; other arguments one after the other by name."""
    if set(call.arguments) == {"command"} and isinstance(call.arguments["command"], str):
        return [f"$ {call.arguments['command']}"]
    if call.malformed:
        return [call.malformed]
    return [f"{name}: {_pretty(value)}" for name, value in call.arguments.items()]


def _pretty(value: object) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def _rows(text: str, width: int) -> list[str]:
    return wrap(visible(text), width)


def _identity(action: Action) -> bytes:
    parts = (action.call.name, action.call.arguments, action.environment, action.target)
    return msgspec.json.encode(parts, order="deterministic")


def _user() -> str:
    try:
        return clean(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:  # a container may run as a number without a name
        return f"uid {os.getuid()}"
