"""Learned checks on healthy noise: false alarms in a day of 20 services, and what they detect.

Every service of a generator in `bench/learned_checks/` is played in virtual time: first `--before`
days that are only learned from (alerts in them are counted as well), then 24 hours. After that,
each fault is played on the same services for `--hours`: wrong data behind a 200, a log that went
silent, a hung worker, a growing backlog.

A question (a change right after a restart, P3) is counted on its own: people are asked, no alarm.

usage: python bench/learned_checks.py [--generator NAME] [--seed N] [--before DAYS] [--hours N]
                                      [--json] [--show]
"""

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

FOLDER = Path(__file__).with_suffix("")
sys.path.insert(0, str(FOLDER))

import msgspec  # noqa: E402
from interface import Answer, Generator, LogActivity, Service, ServiceMinute  # noqa: E402

from hermes.sre.probes.answer_facts import describe_answer  # noqa: E402
from hermes.sre.probes.learned.learner import LearnedChecks  # noqa: E402
from hermes.sre.probes.learned.state import LearnedState, LearnedVerdict, Observation  # noqa: E402

MONDAY = 1_800_230_400.0
"""2027-01-18 00:00 UTC."""
MINUTE_S, DAY_MINUTES = 60.0, 1440
MAX_FALSE_ALARMS = 1
FAULTS = ("wrong-data", "silent-log", "hung-worker", "backlog")


@dataclass
class Alarm:
    service: str
    check: str
    minute: int
    detail: str
    question: bool


@dataclass
class Played:
    """One service on its own checks, so that a fault can be played on a copy."""

    service: Service
    checks: LearnedChecks = field(default_factory=LearnedChecks)
    cpu: tuple[float, float] = (0.0, 0.0)
    statuses: dict[str, int] = field(default_factory=dict)
    """The first status of each page."""
    firing: set[str] = field(default_factory=set)
    alarms: list[Alarm] = field(default_factory=list)

    def play(self, minutes: Iterator[ServiceMinute], first: int) -> None:
        for number, minute in enumerate(minutes, first):
            healthy = not any(self.fails(path, each) for path, each in minute.answers.items())
            for seen in self.observations(minute):
                for each in self.checks.observe(msgspec.structs.replace(seen, healthy=healthy)):
                    self.note(each, number)

    def note(self, verdict: LearnedVerdict, minute: int) -> None:
        if not verdict.failing:
            self.firing.discard(verdict.check)
        elif verdict.check not in self.firing:
            self.firing.add(verdict.check)
            name, asked = self.service.name, bool(verdict.question)
            self.alarms.append(Alarm(name, verdict.check, minute, verdict.detail, asked))

    def observations(self, minute: ServiceMinute) -> Iterator[Observation]:
        """As `hermes.sre.probes.learned.watching` makes them."""
        name, at = self.service.name, minute.at
        started = minute.process.started_at if minute.process is not None else 0.0
        if minute.process is not None:
            if minute.process.cpu_s != self.cpu[0] or not self.cpu[1]:
                self.cpu = (minute.process.cpu_s, at)
            values = {
                "memory": float(minute.process.memory_kb),
                "descriptors": float(minute.process.descriptors),
                "standstill": at - self.cpu[1],
            }
            subject = f"process-{name}"
            yield Observation(
                subject=subject, service=name, at=at, values=values, started_at=started
            )
        for path, answer in minute.answers.items():
            facts = describe_answer(answer.status, answer.content_type, answer.body, answer.seconds)
            values = {"latency": answer.seconds, "size": float(len(answer.body))}
            subject = f"http-{name}{path}"
            if not self.fails(path, answer):
                yield Observation(subject=subject, service=name, at=at, values=values, answer=facts)
        for path, log in minute.logs.items():
            values = {"errors": float(log.error_lines), "silence": log.silent_s}
            yield Observation(subject=f"log-{name}{path}", service=name, at=at, values=values)
        for queue, length in minute.queues.items():
            values = {"queue": float(length)}
            yield Observation(subject=f"queue-{name}-{queue}", service=name, at=at, values=values)

    def fails(self, path: str, answer: Answer) -> bool:
        """Whether the probe that discovery makes for the page fails: not for learned checks."""
        first = self.statuses.setdefault(path, answer.status)
        return answer.status >= (400 if first < 400 else 500)

    def copy(self) -> "Played":
        state = msgspec.json.decode(msgspec.json.encode(self.checks.state), type=LearnedState)
        checks = LearnedChecks(state)
        return Played(self.service, checks, self.cpu, dict(self.statuses), set(self.firing))


def with_fault(fault: str, minute: ServiceMinute, since: int, cpu_s: float) -> ServiceMinute:
    """The minute as it would be with this fault, which began `since` minutes ago."""
    silent = {
        path: LogActivity(0, 0, log.silent_s + since * MINUTE_S)
        for path, log in minute.logs.items()
    }
    if fault == "wrong-data":
        body = b'{"error": "upstream unavailable"}'
        answers = {
            path: Answer(answer.status, answer.content_type, body, answer.seconds)
            for path, answer in minute.answers.items()
        }
        return replace(minute, answers=answers)
    if fault == "silent-log":
        return replace(minute, logs=silent)
    if fault == "hung-worker" and minute.process is not None:
        return replace(minute, logs=silent, process=replace(minute.process, cpu_s=cpu_s))
    queues = {name: length + 10 * since for name, length in minute.queues.items()}
    return replace(minute, queues=queues)


def concerned(fault: str, minute: ServiceMinute) -> bool:
    """Whether a service has what the fault is about."""
    json_pages = any("json" in each.content_type for each in minute.answers.values())
    has_worker = minute.process is not None and not minute.answers
    return {
        "wrong-data": json_pages,
        "silent-log": bool(minute.logs),
        "hung-worker": has_worker,
        "backlog": bool(minute.queues),
    }[fault]


def play_faults(played: Sequence[Played], begin: int, hours: int) -> dict[str, dict[str, object]]:
    delays: dict[str, list[int]] = {fault: [] for fault in FAULTS}
    missed: dict[str, list[str]] = {fault: [] for fault in FAULTS}
    for each in played:
        minutes = [*islice(each.service.minutes(MONDAY, begin + hours * 60), begin, None)]
        for fault in FAULTS:
            if not minutes or not concerned(fault, minutes[0]):
                continue
            first = first_alarm(each.copy(), fault, minutes)
            if first is None:
                missed[fault].append(each.service.name)
            else:
                delays[fault].append(first)
    return {
        fault: {
            "services": len(delays[fault]) + len(missed[fault]),
            "detected": len(delays[fault]),
            "median_minutes": statistics.median(delays[fault]) if delays[fault] else None,
            "missed": missed[fault],
        }
        for fault in FAULTS
    }


def first_alarm(played: Played, fault: str, minutes: Sequence[ServiceMinute]) -> int | None:
    """The minute of the first alarm or question."""
    cpu_s = played.cpu[0]
    for since, minute in enumerate(minutes, 1):
        played.play(iter([with_fault(fault, minute, since, cpu_s)]), since)
        if played.alarms:
            return since
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generator", default="generator")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--before", type=int, default=0, help="days that are learned from first")
    parser.add_argument("--hours", type=int, default=6, help="how long each fault lasts")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", action="store_true", help="print each alarm")
    options = parser.parse_args()
    generator: Generator = importlib.import_module(options.generator)
    began = time.process_time()
    played = [Played(each) for each in generator.services(options.seed)]
    begin = options.before * DAY_MINUTES
    minutes = begin + DAY_MINUTES
    for each in played:
        each.play(each.service.minutes(MONDAY, minutes), 0)
    alarms = [alarm for each in played for alarm in each.alarms]
    false = [each for each in alarms if not each.question]
    counted = [each for each in false if each.minute >= begin]
    row = {
        "services": len(played),
        "seed": options.seed,
        "learned_days_before": options.before,
        "checks": sum(len(each.checks.checks()) for each in played),
        "false_alarms_in_24_hours": len(counted),
        "false_alarms_before": len(false) - len(counted),
        "questions": len(alarms) - len(false),
        "held": len(counted) <= MAX_FALSE_ALARMS,
        "faults": play_faults(played, minutes, options.hours),
        "cpu_seconds": round(time.process_time() - began, 1),
    }
    if options.show:
        for each in alarms:
            kind = "question" if each.question else "alarm"
            print(f"{each.minute:6} {kind:8} {each.service}: {each.check}: {each.detail}")
    print(json.dumps(row) if options.json else "\n".join(f"{k}: {v}" for k, v in row.items()))
    return 0 if row["held"] else 1


if __name__ == "__main__":
    sys.exit(main())
