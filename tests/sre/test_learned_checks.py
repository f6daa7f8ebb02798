"""Learned checks: what they report, what they leave alone, and what people can do about them."""

import random

from learned_world import (
    DAY,
    HOUR,
    MINUTE,
    START,
    healthy_page,
    items,
    names,
    number_seen,
    page,
    page_seen,
    play,
    worker_log,
)

from hermes.sre.probes.answer_facts import describe_answer
from hermes.sre.probes.learned.learner import LearnedChecks, judge_observation
from hermes.sre.probes.learned.state import CheckMark, Observation


def learned_page(hours: float = 6.0) -> LearnedChecks:
    checks = LearnedChecks()
    assert not play(checks, START, hours * HOUR, healthy_page(random.Random(1)))
    return checks


# --- what is reported


def test_wrong_data_behind_a_200_is_reported() -> None:
    checks, later = learned_page(), START + 6 * HOUR
    broken = page({"error": "upstream", "total": 0})
    found = play(checks, later, 20 * MINUTE, lambda at: page_seen(at, broken))
    assert [*names(found)] == ["learned-http-8080-items-shape"]
    after, first = found[0]
    assert after <= 6 * MINUTE
    assert first.severity == "P2" and not first.question
    assert "answers 200, but `items` is missing" in first.detail
    assert "360 of 360 answers" in first.detail


def test_wrong_data_from_one_of_two_servers_is_reported() -> None:
    checks, later = learned_page(), START + 6 * HOUR
    good, bad = page(items()), page({"items": "none"})
    found = play(checks, later, 30 * MINUTE, lambda at: page_seen(at, bad if at % 120 else good))
    assert [*names(found)] == ["learned-http-8080-items-shape"]


def test_a_page_that_became_html_is_reported_as_one() -> None:
    checks, later = learned_page(), START + 6 * HOUR
    html = page(b"<html>login</html>")
    found = play(checks, later, 20 * MINUTE, lambda at: page_seen(at, html))
    assert [*names(found)] == ["learned-http-8080-items-type", "learned-http-8080-items-shape"]


def test_a_list_that_was_never_empty_is_reported_once_a_day_is_known() -> None:
    empty = page(items(0))
    for hours, reported in ((6, False), (25, True)):
        checks = learned_page(hours)
        found = play(checks, START + hours * HOUR, HOUR, lambda at: page_seen(at, empty))
        assert bool(found) is reported
    assert [*names(found)] == ["learned-http-8080-items-content"]
    assert "`items` is an empty list" in found[0][1].detail


def test_a_log_that_went_silent_is_reported() -> None:
    checks = LearnedChecks()
    assert not play(checks, START, 5 * HOUR, worker_log(30.0, random.Random(2)))
    later = START + 5 * HOUR
    found = play(
        checks, later, HOUR, lambda at: number_seen(at, "log-worker", "silence", at - later)
    )
    assert [*names(found)] == ["learned-log-worker-silence"]
    assert 2 * MINUTE < found[0][0] <= 7 * MINUTE
    assert "without a new line; usual is at most" in found[0][1].detail


def test_a_hung_worker_is_reported_by_its_processor_time() -> None:
    checks, randomness = LearnedChecks(), random.Random(4)

    def running(at: float) -> Observation:
        return number_seen(at, "process-worker", "standstill", randomness.random() * 20)

    assert not play(checks, START, 5 * HOUR, running)
    later = START + 5 * HOUR
    found = play(
        checks,
        later,
        HOUR,
        lambda at: number_seen(at, "process-worker", "standstill", at - later),
    )
    assert [*names(found)] == ["learned-process-worker-standstill"]
    assert found[0][0] <= 10 * MINUTE


def test_a_growing_backlog_is_reported_once_a_day_is_known() -> None:
    for hours, reported in ((8, False), (26, True)):
        checks, randomness, later = LearnedChecks(), random.Random(5), START + hours * HOUR

        def seen(at: float, later: float = later, rand: random.Random = randomness) -> Observation:
            grown = max(0.0, 5 * (at - later) / MINUTE)
            return number_seen(at, "queue-mail", "queue", grown + rand.randint(0, 6))

        assert not play(checks, START, hours * HOUR, seen)
        found = play(checks, later, 5 * HOUR, seen)
        assert bool(found) is reported
    assert [*names(found)] == ["learned-queue-mail-queue"]
    assert found[0][0] <= 45 * MINUTE
    assert "growing for" in found[0][1].detail


def test_a_first_morning_is_no_growing_backlog() -> None:
    checks, randomness = LearnedChecks(), random.Random(11)

    def seen(at: float) -> Observation:
        hours = (at - START) / HOUR
        morning = 300 * min(max(0.0, hours - 8) / 4, 1.0) if hours < 18 else 0.0
        return number_seen(at, "queue-mail", "queue", morning + randomness.randint(0, 3))

    assert not play(checks, START, 24 * HOUR, seen)


def test_a_backlog_that_only_stopped_growing_is_not_over() -> None:
    checks = LearnedChecks()
    play(checks, START, 26 * HOUR, lambda at: number_seen(at, "q", "queue", float(at % 7)))
    later = START + 26 * HOUR
    length = lambda at: min(5 * (at - later) / MINUTE, 600.0)  # noqa: E731
    play(checks, later, 2 * HOUR, lambda at: number_seen(at, "q", "queue", length(at)))
    still = play(
        checks, later + 2 * HOUR, 5 * HOUR, lambda at: number_seen(at, "q", "queue", 600.0)
    )
    assert len(still) == 300
    drained = later + 7 * HOUR
    assert len(play(checks, drained, HOUR, lambda at: number_seen(at, "q", "queue", 3.0))) == 2


def test_memory_that_leaks_is_reported() -> None:
    checks, randomness = LearnedChecks(), random.Random(6)

    def steady(at: float) -> Observation:
        return number_seen(at, "process-shop", "memory", 200_000 + randomness.gauss(0, 9000))

    assert not play(checks, START, 30 * HOUR, steady)
    later = START + 30 * HOUR

    def leaking(at: float) -> Observation:
        value = 200_000 + 60_000 * (at - later) / HOUR + randomness.gauss(0, 9000)
        return number_seen(at, "process-shop", "memory", value)

    found = play(checks, later, 24 * HOUR, leaking)
    assert [*names(found)] == ["learned-process-shop-memory"]


def test_error_lines_below_the_limit_of_the_log_probe_are_reported() -> None:
    checks = LearnedChecks()
    assert not play(checks, START, 25 * HOUR, lambda at: number_seen(at, "log-shop", "errors", 0.0))
    found = play(
        checks, START + 25 * HOUR, HOUR, lambda at: number_seen(at, "log-shop", "errors", 5.0)
    )
    assert [*names(found)] == ["learned-log-shop-errors"]


# --- what is left alone


def test_nothing_is_reported_before_enough_was_seen() -> None:
    checks = LearnedChecks()
    play(checks, START, HOUR, healthy_page(random.Random(1)))
    broken = page({"error": "upstream"})
    assert not play(checks, START + HOUR, 10 * MINUTE, lambda at: page_seen(at, broken))
    assert not checks.checks()


def test_new_keys_optional_keys_and_nulls_are_no_deviation() -> None:
    checks, later = learned_page(), START + 6 * HOUR
    more = {**items(), "next": "/items?page=2"}
    more["items"] = [{**each, "note": "sold", "tags": ["a"]} for each in more["items"]]  # type: ignore[attr-defined]
    assert not play(checks, later, 2 * HOUR, lambda at: page_seen(at, page(more)))
    assert not play(checks, later + 2 * HOUR, HOUR, lambda at: page_seen(at, page(items())))


def test_a_short_disturbance_is_not_reported_and_not_learned() -> None:
    checks, later = learned_page(), START + 6 * HOUR
    broken = page({"error": "restarting"})
    assert not play(checks, later, 2 * MINUTE, lambda at: page_seen(at, broken))
    assert not play(checks, later + 2 * MINUTE, HOUR, healthy_page(random.Random(8)))
    found = play(checks, later + 2 * HOUR, HOUR, lambda at: page_seen(at, broken))
    assert [*names(found)] == ["learned-http-8080-items-shape"]


def test_what_was_seen_while_a_service_failed_is_not_learned() -> None:
    checks = LearnedChecks()
    broken = page({"error": "upstream"})
    play(checks, START, 6 * HOUR, lambda at: page_seen(at, broken, healthy=False))
    assert not checks.checks()
    play(checks, START + 6 * HOUR, 6 * HOUR, healthy_page(random.Random(1)))
    found = play(checks, START + 12 * HOUR, HOUR, lambda at: page_seen(at, broken))
    assert [*names(found)] == ["learned-http-8080-items-shape"]


def test_a_deviation_is_never_learned_however_long_it_lasts() -> None:
    checks, later = learned_page(), START + 6 * HOUR
    broken = page({"error": "upstream"})
    found = play(checks, later, 5 * DAY, lambda at: page_seen(at, broken), every=10 * MINUTE)
    assert found[-1][0] == 5 * DAY


def test_a_log_at_random_times_is_judged_only_after_a_day() -> None:
    checks, randomness = LearnedChecks(), random.Random(9)
    last = START

    def seen(at: float) -> Observation:
        nonlocal last
        rate = 30.0 if at % DAY < 12 * HOUR else 400.0
        while (line := last + randomness.expovariate(1 / rate)) < at:
            last = line
        return number_seen(at, "log-access", "silence", at - last)

    assert not play(checks, START, 3 * DAY, seen)


def test_a_batch_that_fills_a_queue_at_night_is_not_reported() -> None:
    checks = LearnedChecks()

    def length(at: float) -> float:
        since = at % DAY - 2 * HOUR
        if 0 <= since < 2 * HOUR:
            return max(3.0, 4000 * min(since / (20 * MINUTE), 1 - since / (2 * HOUR)))
        return 3.0

    seen = lambda at: number_seen(at, "queue-mail", "queue", length(at))  # noqa: E731
    assert not play(checks, START, 4 * DAY, seen)


def test_a_queue_that_follows_the_day_is_not_reported() -> None:
    checks, randomness = LearnedChecks(), random.Random(10)

    def seen(at: float) -> Observation:
        hours = at % DAY / HOUR
        load = max(0.0, 12 - abs(hours - 14)) * 15
        return number_seen(at, "queue-mail", "queue", float(randomness.randint(0, 5)) + load)

    assert not play(checks, START, 4 * DAY, seen)


def test_a_change_after_a_restart_is_a_question_that_ends_with_time() -> None:
    checks, later = learned_page(), START + 6 * HOUR

    def restart(at: float, started: float) -> Observation:
        return number_seen(at, "process-shop", "memory", 100_000.0, started_at=started)

    checks.observe(restart(later, START))
    checks.observe(restart(later + 60, later + 30))
    released = page({"items": [], "count": 3, "page": 1})
    found = play(checks, later + 60, 30 * HOUR, lambda at: page_seen(at, released))
    assert [*names(found)] == ["learned-http-8080-items-shape"]
    assert {each.severity for _, each in found} == {"P3"}
    assert all(each.question for _, each in found)
    assert 23 * HOUR < found[-1][0] < 26 * HOUR


def test_a_suspended_machine_is_no_silent_log() -> None:
    checks = LearnedChecks()
    play(checks, START, 5 * HOUR, worker_log(30.0, random.Random(2)))
    morning = START + 14 * HOUR
    waking = lambda at: number_seen(at, "log-worker", "silence", 9 * HOUR)  # noqa: E731
    assert not play(checks, morning, 2 * MINUTE, waking)
    assert not play(checks, morning + 2 * MINUTE, HOUR, worker_log(30.0, random.Random(3)))


# --- people


def test_a_false_alarm_lowers_the_weight_and_is_learned() -> None:
    checks, later = learned_page(), START + 6 * HOUR
    name = "learned-http-8080-items-shape"
    short = page({"items": items()["items"], "page": 1})
    assert play(checks, later, HOUR, lambda at: page_seen(at, short))
    checks.state.marks[name] = CheckMark().as_false_alarm(later + HOUR)
    assert not play(checks, later + HOUR, 2 * HOUR, lambda at: page_seen(at, short))
    listed = {each.name: each for each in checks.checks()}
    assert (listed[name].weight, listed[name].false_alarms) == (0.5, 1)
    other = page({"error": "upstream"})
    found = play(checks, later + 3 * HOUR, HOUR, lambda at: page_seen(at, other))
    assert found[0][0] > 6 * MINUTE
    assert found[0][1].severity == "P3"


def test_a_check_that_is_off_or_too_light_is_listed_and_raises_nothing() -> None:
    broken, name = page({"error": "upstream"}), "learned-http-8080-items-shape"
    for mark in (CheckMark(on=False), CheckMark(weight=0.25)):
        checks, later = learned_page(), START + 6 * HOUR
        checks.state.marks[name] = mark
        assert not play(checks, later, 2 * HOUR, lambda at: page_seen(at, broken))
        listed = {each.name: each for each in checks.checks()}[name]
        assert listed.failing and not listed.reports


def test_each_check_says_why_it_exists() -> None:
    reasons = {each.measure: each.reason for each in learned_page(26).checks()}
    counted = "in 1560 of 1560 answers since 2027-01-15 00:01 UTC"
    assert reasons["status"] == f"answers 200 {counted}"
    assert reasons["type"] == f"answers 200 with application/json {counted}"
    assert reasons["shape"].startswith("answers 200 with the keys items, items[], items[].id,")
    assert reasons["latency"].startswith("at most 0.")


# --- without the watch


def test_an_answer_is_judged_without_the_watch() -> None:
    subject = learned_page().state.subjects["http-8080-items"]
    facts = describe_answer(200, "application/json", b'{"error": "upstream"}')
    found = [*judge_observation(page_seen(START + DAY, facts), subject)]
    assert [each.measure for each in found] == ["shape"]
    assert not [*judge_observation(page_seen(START + DAY, page(items())), subject)]


def test_no_value_and_no_secret_is_part_of_a_shape() -> None:
    token = "sk_live_4242424242424242"
    facts = page({"user": {"token": token}, token: 1, "by_id": {"4711": {"name": "Ann"}}})
    for secret in (token, "4711", "Ann"):
        assert secret not in repr(facts)
    shape = facts.shape
    assert shape["user.token"] == ("text",) and shape["by_id.*.name"] == ("text",)
