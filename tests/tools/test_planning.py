"""The list of steps, and the question to a person."""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest
from tool_setup import ToolSetup, local

from hermes.core.messages import ToolCall, ToolResult
from hermes.tools import conversation
from hermes.tools.conversation import clarify
from hermes.tools.dependencies import ToolDependencies

pytestmark = pytest.mark.anyio


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncGenerator[ToolSetup, None]:
    async with local(tmp_path) as environment:
        yield ToolSetup(
            environment, {"todo": conversation.make_todo(ToolDependencies()), "clarify": clarify}
        )


async def test_a_list_is_replaced_whole_and_read_back(setup: ToolSetup) -> None:
    assert await setup.ok("todo") == "the list is empty"
    items = [{"text": "look", "status": "done"}, {"text": "mend", "status": "doing"}, {"text": "c"}]
    told = await setup.ok("todo", items=items)
    assert told == "[x] look\n[>] mend\n[ ] c\n1 of 3 finished"
    assert await setup.ok("todo") == told
    assert await setup.ok("todo", items=[]) == "the list is empty"


async def test_each_run_has_its_own_list(setup: ToolSetup) -> None:
    await setup.ok("todo", run="one", items=[{"text": "a"}])
    assert await setup.ok("todo", run="two") == "the list is empty"
    assert "[ ] a" in await setup.ok("todo", run="one")


async def test_a_list_that_does_not_fit_leaves_the_old_one(setup: ToolSetup) -> None:
    await setup.ok("todo", items=[{"text": "a"}])
    assert "'soon'" in await setup.fails("todo", items=[{"text": "b", "status": "soon"}])
    assert "no text" in await setup.fails("todo", items=[{"text": " "}])
    assert "keep the list short" in await setup.fails("todo", items=[{"text": "x"}] * 101)
    assert await setup.ok("todo") == "[ ] a\n0 of 1 finished"


async def ask(setup: ToolSetup, answer: str | None, **arguments: object) -> ToolResult:
    asked: list[tuple[str, Sequence[str]]] = []

    async def person(question: str, choices: Sequence[str]) -> str | None:
        asked.append((question, tuple(choices)))
        return answer

    call = ToolCall("1", "clarify", dict(arguments))
    result = await setup.executor.execute(call, setup.context(ask=person))
    assert asked in ([], [("Which host?", ("a", "b"))])
    return result


async def test_the_answer_of_a_person_comes_back(setup: ToolSetup) -> None:
    result = await ask(setup, "b", question="Which host?", choices=["a", "b"])
    assert (result.status, result.content) == ("ok", "b")


async def test_when_nobody_answers_the_model_is_told_to_decide(setup: ToolSetup) -> None:
    result = await ask(setup, None, question="Which host?", choices=["a", "b"])
    assert result.status == "error"
    assert "state your assumption" in result.content
    assert "state your assumption" in await setup.fails("clarify", question="Which host?")


async def test_questions_that_make_no_sense_are_not_put(setup: ToolSetup) -> None:
    assert "empty" in (await ask(setup, "x", question=" ")).content
    assert "at most 10" in (await ask(setup, "x", question="?", choices=["a"] * 11)).content
    assert clarify.spec.alone
