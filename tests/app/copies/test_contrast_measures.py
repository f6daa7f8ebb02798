"""What two copies of a service showed is compared: only a clear difference becomes a check."""

import pytest

from hermes.app.copies.contrast_checks import ServiceAnswer, ServiceMeasures, ServicePlace
from hermes.declared.experiments.host_programs import HostService

SERVICE = HostService(name="shop", settings_text="queue=/var/spool/shop\nport=8080\n")
SLOW, FAST = ServiceAnswer(200, 2.4, "ok fine"), ServiceAnswer(200, 0.02, "ok fine")
FULL, EMPTY = {"/var/spool/shop": 80}, {"/var/spool/shop": 2}


def found_by(bad: ServiceMeasures, good: ServiceMeasures) -> list[tuple[str, str]]:
    place = ServicePlace(SERVICE, [8080], ["/items"])
    return [(each.probe.name, each.detail) for each in place.compare(bad, good)]


def twice(answer: ServiceAnswer) -> ServiceMeasures:
    return ServiceMeasures(answers=((answer, answer),))


@pytest.mark.parametrize(
    ("bad", "good", "name"),
    [
        (ServiceAnswer(500), FAST, "answer-shop"),
        (ServiceAnswer(), FAST, "answer-shop"),
        (SLOW, FAST, "slow-shop"),
        (ServiceAnswer(200, 0.02, "ok test-articles"), FAST, "answer-shop"),
    ],
)
def test_an_answer_that_only_the_failing_copy_gives(
    bad: ServiceAnswer, good: ServiceAnswer, name: str
) -> None:
    assert [each for each, _ in found_by(twice(bad), twice(good))] == [name]
    assert not found_by(twice(good), twice(good))


def test_an_answer_that_differs_from_request_to_request_says_nothing() -> None:
    one, two = ServiceAnswer(200, 0.02, "order 1777"), ServiceAnswer(200, 0.02, "order 1778")
    assert not found_by(ServiceMeasures(answers=((one, two),)), twice(FAST))


def test_what_fails_on_the_healthy_copy_as_well_says_nothing() -> None:
    assert not found_by(twice(ServiceAnswer(500)), twice(ServiceAnswer(503)))


def test_files_that_pile_up_are_a_backlog() -> None:
    answers = twice(FAST).answers
    bad, good = (ServiceMeasures(answers=answers, entries=each) for each in (FULL, EMPTY))
    assert found_by(bad, good) == [("backlog-shop", "80 files wait in /var/spool/shop")]
    assert not found_by(good, bad)
    assert not found_by(bad, bad)
