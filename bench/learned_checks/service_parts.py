"""The parts of healthy services: time, traffic, latency, logs, processes and answers."""

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count as count_from

from interface import Answer, LogActivity, ProcessUse

JSON_TYPE, HTML_TYPE = "application/json", "text/html; charset=utf-8"
WORDS = ("alder", "birch", "cedar", "hazel", "larch", "maple")
WORDS += ("oak", "pine", "rowan", "spruce", "willow", "yew")


@dataclass(frozen=True)
class Tick:
    """One minute: its end, the day since the first Monday, and the minute of that day."""

    at: float
    day: int
    minute: int

    @property
    def weekday(self) -> int:
        return self.day % 7

    def within(self, first: int, length: int) -> bool:
        return first <= self.minute < first + length


def ticks(start: float) -> Iterator[Tick]:
    for index in count_from():
        yield Tick(start + 60.0 * (index + 1), index // 1440, index % 1440)


def draw_poisson(rng: random.Random, mean: float) -> int:
    """A count; wider than Poisson for large means, as real traffic is."""
    if mean > 30:
        return max(0, round(rng.gauss(mean, math.sqrt(mean) + 0.06 * mean)))
    product, number, limit = rng.random(), 0, math.exp(-mean)
    while product > limit:
        product, number = product * rng.random(), number + 1
    return number


def iso_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def json_answer(value: object, seconds: float, content_type: str = JSON_TYPE) -> Answer:
    return Answer(200, content_type, json.dumps(value).encode(), seconds)


def html_answer(title: str, inner: str, seconds: float) -> Answer:
    page = f"<!doctype html><html><head><title>{title}</title></head><body>{inner}</body></html>"
    return Answer(200, HTML_TYPE, page.encode(), seconds)


class Traffic:
    """Load between about 0 and 1.5 with a daily curve, weekends, better and worse days, drift."""

    def __init__(self, rng: random.Random, peak: float, night: float, weekend: float = 1.0):
        self._rng, self._peak, self._night, self._weekend = rng, peak, night, weekend
        self._day_factor, self._drift = 1.0, 0.0

    def at(self, t: Tick) -> float:
        if t.minute == 0:
            self._day_factor = math.exp(self._rng.gauss(0, 0.13))
        self._drift = 0.97 * self._drift + self._rng.gauss(0, 0.03)
        curve = 0.5 + 0.5 * math.cos(2 * math.pi * (t.minute / 60 - self._peak) / 24)
        weekend = self._weekend if t.weekday >= 5 else 1.0
        base = self._night + (1 - self._night) * math.pow(curve, 1.6)
        return base * weekend * self._day_factor * math.exp(self._drift)


class Latency:
    """Log-normal times with slow drift and a rare slow answer (a lost packet, a pause)."""

    def __init__(self, rng: random.Random, median: float, sigma: float = 0.25):
        self._rng, self._median, self._sigma, self._drift = rng, median, sigma, 0.0

    def draw(self, factor: float = 1.0) -> float:
        self._drift = 0.985 * self._drift + self._rng.gauss(0, 0.025)
        value = self._median * factor * math.exp(self._drift + self._rng.gauss(0, self._sigma))
        if self._rng.random() < 0.002:
            value += self._rng.uniform(0.2, 1.6)
        return round(value, 4)


class Log:
    """Counts the silence of one log file."""

    def __init__(self, rng: random.Random, silent: float = 20.0):
        self._rng, self._silent = rng, silent

    def add(self, lines: int, errors: int = 0) -> LogActivity:
        lines = max(lines, errors)
        if lines:
            self._silent = 60 * (1 - self._rng.random() ** (1 / lines))
        else:
            self._silent += 60
        return LogActivity(lines, errors, round(self._silent, 1))


class Process:
    """Start time and processor time of a service that has run for days when the run begins."""

    def __init__(self, rng: random.Random, start: float, cpu_per_day: float):
        self._rng, age = rng, rng.uniform(1.5, 60)
        self._started, self._cpu = start - age * 86400, age * cpu_per_day

    def restart(self, t: Tick) -> None:
        self._started, self._cpu = t.at - self._rng.uniform(4, 50), self._rng.uniform(0.3, 3.5)

    def use(self, t: Tick, cpu: float, memory_mb: float, descriptors: float) -> ProcessUse:
        self._cpu += max(0.0, min(cpu, 4 * (t.at - self._started))) * self._rng.uniform(0.85, 1.2)
        memory = round(memory_mb * 256 * self._rng.gauss(1, 0.002)) * 4
        return ProcessUse(round(self._started, 2), round(descriptors), memory, round(self._cpu, 2))
