"""The built-in sets say what their own PolicyTests expect, and every set has some."""

from functools import cache
from pathlib import Path

import pytest
from policy_setup import HOME, WORK, gate

from hermes.policy.decide import DocumentPolicy
from hermes.policy.examination import run_tests
from hermes.policy.loading import BUILT_IN_SETS_FOLDER
from hermes.policy.rules.documents import LocatedDocument, load_folder

FOLDER = Path(__file__).parent / "sets"
LOADED = load_folder(FOLDER)


@cache
def policy_of(name: str) -> DocumentPolicy:
    return gate(set=name)


def test_the_tests_of_the_sets_are_without_mistakes() -> None:
    assert [str(problem) for problem in LOADED.problems] == []


def test_every_set_is_tested() -> None:
    tested = {placed.document.spec.set for placed in LOADED.documents}  # type: ignore[union-attr]
    assert tested == {file.stem for file in BUILT_IN_SETS_FOLDER.glob("*.yaml")}


@pytest.mark.parametrize(
    "placed", LOADED.documents, ids=lambda placed: placed.document.metadata.name
)
def test_a_set_decides_as_it_promises(placed: LocatedDocument) -> None:
    results = run_tests([placed], policy_of, cwd=WORK, home=HOME)
    assert results
    assert [f"{result.shown}: {result.problem}" for result in results if not result.ok] == []
