"""What a generator of healthy services gives to `bench/learned_checks.py`.

A generator is a module of this folder with one function:

    def services(seed: int) -> Sequence[Service]

It returns 20 services. The same seed gives the same observations, byte for byte; no clock, no
network and no file is read. Everything that it produces is *healthy*: an experienced operator who
saw it would not want to be called. Within that, make it as varied and as untidy as real services
are: what an hour, a night, a busy day, a job, a release or a restart does to them.

A generator must be written without knowledge of the checks in `hermes.sre.probes.learned`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Answer:
    """The answer of a web page to one GET request."""

    status: int
    content_type: str
    """As in the header; may be empty."""
    body: bytes
    seconds: float
    """From the request to the end of the body."""


@dataclass(frozen=True)
class LogActivity:
    """What happened in one log within the last minute."""

    lines: int
    """New lines."""
    error_lines: int
    """New lines that report errors; part of `lines`."""
    silent_s: float
    """Seconds since the last line at the end of the minute. It grows over the minutes in which no
    line is written."""


@dataclass(frozen=True)
class ProcessUse:
    """The processes of one service at the end of the minute."""

    started_at: float
    """When its main process started, as Unix time. It changes with a restart or a release."""
    descriptors: int
    """Open file descriptors."""
    memory_kb: int
    """Resident memory."""
    cpu_s: float
    """Processor time since `started_at`, in seconds."""


@dataclass(frozen=True)
class ServiceMinute:
    """What is observed of one service in one minute. A part that a service does not have is left
    out: a worker has no answers, a proxy has no queues."""

    at: float
    """The end of the minute, as Unix time."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """By path, such as `/items`. The same paths in every minute."""
    logs: Mapping[str, LogActivity] = field(default_factory=dict)
    """By path of the file."""
    process: ProcessUse | None = None
    queues: Mapping[str, int] = field(default_factory=dict)
    """Waiting jobs, by name of the queue or path of the spool folder."""


class Service(Protocol):
    @property
    def name(self) -> str: ...

    def minutes(self, start: float, count: int) -> Iterator[ServiceMinute]:
        """`count` minutes in order; the first ends at `start` + 60 s. `start` is midnight UTC of a
        Monday. The same arguments give the same minutes; a larger `count` continues them. `count`
        is at most 14 days."""
        ...


class Generator(Protocol):
    """The module itself."""

    def services(self, seed: int) -> Sequence[Service]: ...
