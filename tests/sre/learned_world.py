"""A small host in virtual time for the tests of learned checks: pages, logs, processes, queues."""

import json
import random
from collections.abc import Callable, Iterator

from hermes.sre.probes.answer_facts import AnswerFacts, describe_answer
from hermes.sre.probes.learned.learner import LearnedChecks
from hermes.sre.probes.learned.state import LearnedVerdict, Observation

START = 1_800_000_000.0 - 1_800_000_000.0 % 86_400
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
Seen = Callable[[float], Observation]


def page(body: object, *, status: int = 200, seconds: float = 0.02) -> AnswerFacts:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "text/html" if isinstance(body, bytes) else "application/json; charset=utf-8"
    return describe_answer(status, kind, data, seconds)


def items(count: int = 3) -> dict[str, object]:
    found = [{"id": n, "name": f"thing {n}", "price": 1.5, "note": None} for n in range(count)]
    return {"items": found, "total": count, "page": 1}


def page_seen(at: float, facts: AnswerFacts, **more: object) -> Observation:
    values = {"latency": facts.seconds, "size": float(facts.size)}
    return Observation(  # type: ignore[arg-type]
        subject="http-8080-items", service="shop", at=at, values=values, answer=facts, **more
    )


def number_seen(at: float, subject: str, measure: str, value: float, **more: object) -> Observation:
    return Observation(  # type: ignore[arg-type]
        subject=subject, service="shop", at=at, values={measure: value}, **more
    )


def play(
    checks: LearnedChecks, begin: float, seconds: float, seen: Seen, every: float = MINUTE
) -> list[tuple[float, LearnedVerdict]]:
    """All verdicts that say `failing`, with the seconds since the beginning."""
    found = []
    for number in range(1, int(seconds / every) + 1):
        at = begin + number * every
        found += [(at - begin, each) for each in checks.observe(seen(at)) if each.failing]
    return found


def healthy_page(randomness: random.Random) -> Seen:
    def seen(at: float) -> Observation:
        busy = at % DAY > 8 * HOUR
        seconds = randomness.lognormvariate(-4.0, 0.5) * (3 if busy else 1)
        return page_seen(at, page(items(randomness.randint(1, 30)), seconds=seconds))

    return seen


def worker_log(period: float, randomness: random.Random) -> Seen:
    """A worker that writes a line every `period` seconds."""
    return lambda at: number_seen(at, "log-worker", "silence", randomness.random() * period)


def names(found: list[tuple[float, LearnedVerdict]]) -> Iterator[str]:
    return iter(dict.fromkeys(each.check for _, each in found))
