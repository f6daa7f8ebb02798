"""When the agent looks back, what it reads, what it may propose, and what `gepa` makes of it."""

from pathlib import Path

import pytest
from compiler_fixtures import scripted
from review_tasks import a_task, numbered, tasks

from hermes.core.events.skills import SkillsReviewed
from hermes.skills.discovery import SkillRoot
from hermes.skills.library import SkillLibrary
from hermes.skills.lifecycle.evaluation import ReplayCase
from hermes.skills.lifecycle.proposal import propose_change, render_run_excerpt
from hermes.skills.lifecycle.review import (
    DueReview,
    check_review_due,
    list_finished_tasks,
    normalize_error,
)


def test_the_same_trouble_has_the_same_signature() -> None:
    one = "Traceback\npsycopg.OperationalError: connection to 10.0.0.7:5432 refused (id 4f2a9c11)"
    other = "psycopg.OperationalError: connection to 10.0.0.9:6432 refused (id 77ab01ff)\n\n"
    assert normalize_error(one) == normalize_error(other) != ""
    assert normalize_error("cannot open '/a/b'") == normalize_error("cannot open '/c'")
    assert normalize_error("cannot open it") != normalize_error("permission denied")
    assert normalize_error("") == ""


def test_a_review_is_due_after_fifteen_tasks() -> None:
    assert check_review_due(numbered(tasks(14))) is None
    found = check_review_due(numbered(tasks(15)))
    assert found is not None
    assert "15 tasks" in found.why


def test_a_review_is_due_after_three_tasks_with_the_same_error() -> None:
    assert check_review_due(numbered(tasks(2, "no such file: /srv/{n}"))) is None
    found = check_review_due(numbered(tasks(3, "no such file: /srv/{n}")))
    assert found is not None
    assert "no such file" in found.why
    assert [task.run for task in found.tasks] == ["run-0", "run-1", "run-2"]
    different = [*a_task("a", "timed out"), *a_task("b", "denied"), *a_task("c", "not found")]
    assert check_review_due(numbered(different)) is None


def test_after_a_review_counting_begins_again() -> None:
    events = [*tasks(15), SkillsReviewed(run="r", why="x"), *a_task("later", outcome="failed")]
    assert check_review_due(numbered(events)) is None
    assert [(each.run, each.failed) for each in list_finished_tasks(numbered(events))] == [
        ("later", True)
    ]


def test_what_is_read_of_a_run_is_what_it_did_and_how_that_ended() -> None:
    text = render_run_excerpt(numbered(a_task("x", "no such file")))
    assert text == "$ cat /srv/x -> error: no such file"


def a_library(folder: Path) -> SkillLibrary:
    (folder / "find-files").mkdir(parents=True)
    (folder / "find-files" / "SKILL.md").write_text(
        "---\nname: find-files\ndescription: Finds files.\n---\n# Find\n"
    )
    return SkillLibrary([SkillRoot(folder, "user")])


GOOD = (
    '{"skill": "find-files", "file": "SKILL.md", "why": "look first", "text": '
    '"---\\nname: find-files\\ndescription: Finds files.\\n---\\n'
    '# Find\\nlist the folder first\\n"}'
)


@pytest.mark.anyio
async def test_one_change_is_proposed_and_a_bad_one_is_not_taken(tmp_path: Path) -> None:
    skills = a_library(tmp_path).skills
    failing = list_finished_tasks(numbered(tasks(3, "no such file")))
    why = DueReview(why="three", tasks=tuple(failing))
    runs = {"run-0": numbered(a_task("run-0", "no such file"))}
    bad = GOOD.replace("name: find-files", "name: other")
    model = scripted(bad, f"Here: {GOOD}")
    proposal, trouble = await propose_change(why, runs, skills, model)
    assert proposal is not None, trouble
    assert "list the folder first" in proposal.text
    assert "its name must stay" in model.seen[1][-1].text
    assert "no such file" in model.seen[0][-1].text
    none, told = await propose_change(
        why, runs, skills, scripted('{"skill": "", "why": "all fine"}')
    )
    assert (none, told) == (None, "nothing proposed: all fine")
    none, told = await propose_change(why, runs, skills, scripted("I think…", "no"))
    assert none is None
    assert "JSON" in told


@pytest.mark.anyio
async def test_gepa_searches_with_our_model_and_our_replays() -> None:
    pytest.importorskip("gepa")
    from hermes.skills.lifecycle.evolution import CaseScore, evolve_texts  # noqa: PLC0415 - an extra

    async def score(texts: dict[str, str], case: ReplayCase) -> CaseScore:
        found = "list the folder first" in texts["SKILL.md"]
        return CaseScore(score=1.0 if found else 0.0, feedback="no such file")

    model = scripted(*["```\nlist the folder first\n```"] * 20)
    cases = [ReplayCase(name="x", seed=seed) for seed in range(3)]
    best = await evolve_texts({"SKILL.md": "open the file"}, cases, score, model, max_replays=20)
    assert best["SKILL.md"].strip() == "list the folder first"
    assert "no such file" in model.seen[0][-1].text
