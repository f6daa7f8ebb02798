"""Runs learned checks among the checks of an incident: a fix is verified against them, too.

A single run decides here, without the time that a deviation must last before it is reported. So
only measures take part that a healthy service always meets, and those that were reported.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from hermes.sre.checks import CheckResult
from hermes.sre.probes.learned.learner import is_near_limit, judge_observation
from hermes.sre.probes.learned.rules import ANSWER_MEASURES, RULES, answer_is_ready, is_ready
from hermes.sre.probes.learned.state import Observation, SubjectState, check_name
from hermes.sre.probes.learned.watching import LearnedObserver, observation_of
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.probe_runner import ProbeResult

STEADY_MEASURES = ("status", "type", "shape", "silence", "standstill")
"""Measures that a restart or a busy moment does not change."""
RESET_MEASURES = ("memory", "descriptors")
"""Measures that any restart resets, whatever the cause was: no evidence of a fix."""


class LearnedEvidence:
    """The learned checks of one service during one incident."""

    def __init__(
        self, observer: LearnedObserver, service: str, now: Callable[[], float] = time.time
    ) -> None:
        self._observer, self._service, self._now = observer, service, now
        self._passed_at: dict[str, float] = {}
        """When each check first passed after it had failed."""
        self._first: dict[str, float] = {}
        """The first value of each measure in this incident."""

    async def __call__(
        self, probes: Sequence[Probe], results: Mapping[str, ProbeResult]
    ) -> Sequence[CheckResult]:
        at = self._now()
        seen = [
            found
            for probe in probes
            if results[probe.name].code == 0
            and (found := observation_of(probe, results[probe.name], at))
        ]
        if self._service:
            seen += [
                each
                for each in await self._observer.measure_now(self._observer.watched_probes)
                if each.service == self._service
            ]
        return [result for each in seen for result in self._results(each)]

    def on_copy(self) -> "LearnedEvidence":
        return LearnedEvidence(self._observer, "", self._now)

    def names_for(self, probe: Probe) -> Collection[str]:
        measures = (*ANSWER_MEASURES, *RULES)
        return [check_name(probe.name, measure) for measure in measures]

    def _results(self, seen: Observation) -> Iterator[CheckResult]:
        subject = self._observer.subjects().get(seen.subject)
        if subject is None:
            return
        words = {each.measure: each.words for each in judge_observation(seen, subject)}
        for measure in self._measures(seen, subject):
            name = check_name(seen.subject, measure)
            unresolved = self._is_unresolved(seen, subject, measure)
            failing = (measure in words or unresolved) and not self._shrinks(seen, measure, name)
            yield CheckResult(
                check=name,
                ok=not failing,
                detail=(words.get(measure) or _detail(seen, subject, measure))[:200],
                service=seen.service,
                proves=failing or self._is_evidence(seen, measure, name),
            )

    def _measures(self, seen: Observation, subject: SubjectState) -> Iterator[str]:
        for measure in (*(ANSWER_MEASURES if seen.answer else ()), *seen.values):
            reported = measure in subject.lasting and subject.lasting[measure].reported
            if not self._observer.can_report(seen.subject, measure):
                continue
            if reported or (measure in STEADY_MEASURES and _is_ready(subject, measure)):
                yield measure

    def _is_unresolved(self, seen: Observation, subject: SubjectState, measure: str) -> bool:
        """Return whether a reported number is still close to its limit."""
        lasting = subject.lasting.get(measure)
        if lasting is None or not lasting.reported:
            return False
        return is_near_limit(seen, subject, measure)

    def _shrinks(self, seen: Observation, measure: str, name: str) -> bool:
        """Return whether a backlog is smaller than at the beginning of the incident."""
        if measure != "queue":
            return False
        return seen.values[measure] < self._first.setdefault(name, seen.values[measure])

    def _is_evidence(self, seen: Observation, measure: str, name: str) -> bool:
        """A first line after a restart is no sign of work: a second one is."""
        if measure in RESET_MEASURES:
            return False
        rule = RULES.get(measure)
        if rule is None or not rule.pause:
            return True
        first = self._passed_at.setdefault(name, seen.at)
        return seen.at - seen.values[measure] > first


def _is_ready(subject: SubjectState, measure: str) -> bool:
    if measure in ANSWER_MEASURES:
        return subject.answer is not None and answer_is_ready(subject.answer, measure)
    return measure in subject.numbers and is_ready(RULES[measure], subject.numbers[measure])


def _detail(seen: Observation, subject: SubjectState, measure: str) -> str:
    lasting, value = subject.lasting.get(measure), seen.values.get(measure)
    now = f"{value:.6g} now" if value is not None else "as it was learned"
    if lasting is None or not lasting.reported:
        return now
    return f"{now}; it was reported for: {lasting.detail}"
