"""A copy fails as its host does only when the same check fails in the same way."""

import pytest

from hermes.declared.experiments.copied_checks import CheckReading, ExpectedReadings

ON_HOST = ExpectedReadings(
    failing=(
        CheckReading(name="http", ok=False, detail="0.2 seconds for status 502; the status is 502"),
    ),
    passing=("unit",),
)


def reading(
    name: str, detail: str = "", *, ok: bool = False, unknown: bool = False
) -> CheckReading:
    return CheckReading(name=name, ok=ok, detail=detail, unknown=unknown)


@pytest.mark.parametrize(
    ("readings", "outcome"),
    [
        ([reading("http", "0.9 seconds for status 502; the status is 502")], "fails"),
        ([reading("http", "the status is 500")], "differs"),
        ([reading("http", "no answer: connection refused")], "differs"),
        ([reading("http", "something unusual")], "fails"),
        ([reading("http", ok=True)], "passes"),
        ([reading("http", ok=True), reading("unit", "it is failed")], "unclear"),
        ([reading("http", ok=True), reading("other", "it is failed")], "passes"),
        ([reading("http", unknown=True)], "unclear"),
        ([], "unclear"),
    ],
)
def test_outcomes(readings: list[CheckReading], outcome: str) -> None:
    assert ON_HOST.judge(readings) == outcome


def test_another_failure_than_on_the_host_is_described() -> None:
    found = ON_HOST.differences([reading("http", "the status is 500")])
    assert found == ("http: status 500 instead of status 502",)
    found = ON_HOST.differences([reading("http", "no answer: connection refused")])
    assert found == ("http: no answer instead of status 502",)
    assert ON_HOST.differences([reading("http", "the status is 502"), reading("unit")]) == ()


def test_a_trial_is_described_by_what_fails_else_by_what_passed() -> None:
    assert ON_HOST.describe([reading("http", "no answer")]) == "http: no answer"
    assert ON_HOST.describe([reading("http", ok=True)]) == "http passed"


def test_what_is_full_is_named() -> None:
    details = ("99 percent of the allowed memory are used (noeviction)", "the status is 500")
    failing = tuple(CheckReading(name=each[:2], ok=False, detail=each) for each in details)
    full = ExpectedReadings(failing=failing).full_stores
    assert full == ("99 percent of the allowed memory are used",)
