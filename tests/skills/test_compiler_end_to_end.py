"""The example that the product is known by: a wish becomes a function that every session has."""

from pathlib import Path

import pytest
from compiler_fixtures import CODE, TASK, TESTS, a_home, a_script, answer

from hermes.app import Application, open_application
from hermes.core.actions import Action, Approval, Decision
from hermes.core.events.skills import CompilerReported, SkillChanged
from hermes.core.events.tools import ToolDecided, ToolFinished
from hermes.environments.sandboxing import support
from hermes.skills.discovery import default_roots
from hermes.skills.library import SkillLibrary

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
SALES = {"filename": "q1", "sales_data": {"Tea": 3.5, "Milk": 2}}


async def yes(action: Action, decision: Decision) -> Approval:
    return Approval(approved=True, by="test")


def calls(tool: str, **arguments: object) -> dict[str, object]:
    return {"calls": [{"id": f"c-{tool}", "name": tool, "arguments": arguments}]}


def offered(house: Application) -> set[str]:
    return {spec.name for spec in house.agent_dependencies.executor.specs}


def models(script: Path, folder: Path) -> dict[str, str]:
    """One answers in the conversation, another writes code."""
    writer = a_script(folder / "writer.jsonl", {"text": answer()})
    return {"model.default": f"scripted:{script}", "model.strong": f"scripted:{writer}"}


async def test_a_wish_becomes_a_tool_of_this_and_of_every_later_session(tmp_path: Path) -> None:
    script = a_script(
        tmp_path / "first.jsonl",
        calls("skill_create", name="generate_csv_report", task=TASK),
        calls("generate_csv_report", **SALES),
        {"text": "made and used"},
    )
    loaded = a_home(tmp_path, **models(script, tmp_path))
    async with open_application(loaded, approver=yes, directory=tmp_path) as house:
        assert "generate_csv_report" not in offered(house)
        conversation = await house.begin(TASK)
        assert await conversation.say(TASK) == "made and used"
        events = [each.event async for each in house.journal.read()]
        assert "generate_csv_report" in offered(house), "the model is shown it at its next step"
    finished = [e.result for e in events if isinstance(e, ToolFinished)]
    assert [each.status for each in finished] == ["ok", "ok"]
    assert "is a tool of yours from now on" in finished[0].content
    said = [f"[{e.speaker}] {e.text}" for e in events if isinstance(e, CompilerReported)]
    assert said == [
        "[Core] No tool found for task…",
        "[Compiler] Drafting 'generate_csv_report.py'…",
        "[Sandbox] Executing validation suite… Exit code: 0",
        "[Core] Skill 'generate_csv_report' successfully registered.",
    ]
    assert [e.state for e in events if isinstance(e, SkillChanged)] == ["draft", "compiled"]
    report = loaded.home / "data" / "q1.csv"
    assert report.read_text().splitlines() == ["Product,Revenue", "Tea,3.5", "Milk,2.0"]

    found = SkillLibrary(default_roots(loaded.home, bundled=False)).find("generate-csv-report")
    assert "headers Product and Revenue" in found.description
    assert set(found.files) == {
        "scripts/generate_csv_report.py",
        "tests/test_generate_csv_report.py",
    }
    await _used_in_a_later_session(tmp_path)


async def _used_in_a_later_session(tmp_path: Path) -> None:
    script = a_script(
        tmp_path / "second.jsonl",
        calls("generate_csv_report", filename="q2", sales_data={"Rice": 1}),
        {"text": "done"},
    )
    loaded = a_home(tmp_path, **{"model.default": f"scripted:{script}"})
    async with open_application(loaded, approver=yes, directory=tmp_path) as house:
        conversation = await house.begin("a report")
        assert await conversation.say("a report, please") == "done"
        events = [each.event async for each in house.journal.read(run=conversation.run)]
    assert [e.result.status for e in events if isinstance(e, ToolFinished)] == ["ok"]
    assert any(isinstance(e, ToolDecided) for e in events)
    assert (loaded.home / "data" / "q2.csv").read_text() == "Product,Revenue\nRice,1.0\n"


async def test_without_leave_the_tool_does_not_run(tmp_path: Path) -> None:
    script = a_script(
        tmp_path / "s.jsonl",
        calls("skill_create", name="generate_csv_report", task=TASK),
        calls("skill_call", name="generate_csv_report", arguments=SALES),
        {"text": "refused"},
    )
    loaded = a_home(tmp_path, **models(script, tmp_path), **{"policy.set": "observe"})
    async with open_application(loaded, directory=tmp_path) as house:
        conversation = await house.begin(TASK)
        await conversation.say(TASK)
        events = [each.event async for each in house.journal.read()]
    statuses = [e.result.status for e in events if isinstance(e, ToolFinished)]
    assert statuses[-1] == "denied"
    assert not (loaded.home / "data" / "q1.csv").exists()


async def test_made_anew_it_is_the_new_one_that_is_called_at_once(tmp_path: Path) -> None:
    code = CODE.replace('["Product", "Revenue"]', '["PRODUCT", "REVENUE"]')
    upper = answer(code, TESTS.replace("Product,Revenue", "PRODUCT,REVENUE"))
    loaded = a_home(tmp_path)
    for text in (answer(), upper):
        script = a_script(
            tmp_path / "s.jsonl",
            calls("skill_create", name="generate_csv_report", task=TASK),
            calls("generate_csv_report", **SALES),
            {"text": "done"},
        )
        writer = a_script(tmp_path / "w.jsonl", {"text": text})
        chosen = {"model.default": f"scripted:{script}", "model.strong": f"scripted:{writer}"}
        loaded = a_home(tmp_path, **chosen)
        async with open_application(loaded, approver=yes, directory=tmp_path) as house:
            conversation = await house.begin(TASK)
            assert await conversation.say(TASK) == "done"
    assert (loaded.home / "data" / "q1.csv").read_text().startswith("PRODUCT,REVENUE")
