"""Learns from observations of healthy services, and reports lasting deviations from them.

Nothing is learned while a service fails, while one of its learned checks deviates, or right after
a restart. A deviation is reported only when it lasts far longer than those that ended before.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from statistics import median

from msgspec.structs import replace

from hermes.sre.probes.learned.rules import (
    ANSWER_MEASURES,
    MIN_RESULTS,
    RULES,
    Deviation,
    answer_is_ready,
    answer_reason,
    is_ready,
    is_suspect_growth,
    judge_answer,
    judge_number,
    number_band,
    number_reason,
)
from hermes.sre.probes.learned.state import (
    MIN_REPORTED_WEIGHT,
    CheckMark,
    LastingDeviation,
    LearnedCheck,
    LearnedState,
    LearnedVerdict,
    Observation,
    SubjectState,
    check_name,
)
from hermes.sre.probes.learned.summaries import (
    SMOOTHED_VALUES,
    AnswerSummary,
    Growth,
    NumberSummary,
)

RESTART_QUIET_S, ANSWER_QUIET_S = 900.0, 180.0
"""Seconds after a restart in which numbers, and answers, are neither learned nor judged."""
RELEASE_WINDOW_S = 3600.0
"""A change that begins so soon after a restart may be a release: it is a question."""
ACCEPT_CHANGE_S = 86_400.0
"""A question that stays open so long, on a healthy service, is learned as the new behaviour."""
ACCEPTING_S = 3600.0
"""For how long deviations are learned after people, or time, accepted them."""
PAUSE_OF_WATCH_S = 900.0
"""Seconds without an observation after which nothing is concluded from the time between."""
RESULTS_TO_LEAVE = 3
LEAVE_SHARE = 0.9
"""The share of its limit below which a reported number is fine again."""
DRAINED_SHARE = 0.7
"""The share of its peak below which a reported growth is over."""
LONGER_THAN_BEFORE = 3.0
"""How many times longer than one that ended without a report a deviation must last."""
MAX_SUBJECTS = 300
MIN_WEIGHT = 0.01
RELEASE_QUESTION = "is this change intended?"


class LearnedChecks:
    """Time is taken from the observations, so that a day can pass in a moment."""

    def __init__(self, state: LearnedState | None = None, off: Sequence[str] = ()) -> None:
        """`off`: patterns of names, and measures, that are off by a setting."""
        self.state = state or LearnedState()
        self._off = off

    def observe(self, seen: Observation) -> tuple[LearnedVerdict, ...]:
        """Judge, then learn. Returns the checks that fail now, and those that just ended."""
        subject = self._subject(seen)
        self._note_restart(seen)
        self._accept_by_people(seen, subject)
        seen = self._with_watched_pauses(seen, subject)
        failing_before = self._is_failing(seen)
        for measure, growth in _growths(seen, subject):
            growth.add(seen.values[measure], seen.at, learn=seen.healthy and not failing_before)
        judged = [each for each in _measures(seen) if not self._is_quiet(seen, each)]
        weights = {
            each: max(self.mark(check_name(seen.subject, each)).weight, MIN_WEIGHT)
            for each in judged
        }
        deviations = {
            each.measure: each
            for each in judge_observation(seen, subject, weights)
            if each.measure in judged and subject.accepting.get(each.measure, 0.0) < seen.at
        }
        found = [
            verdict
            for measure in judged
            if (verdict := self._follow(seen, subject, measure, deviations.get(measure)))
        ]
        if seen.healthy and not self._is_failing(seen):
            _learn(seen, subject, judged, deviations)
        subject.last_at = seen.at
        return tuple(found)

    def checks(self) -> tuple[LearnedCheck, ...]:
        """All checks that have learned enough, and all that people have marked."""
        found = [
            check
            for name, subject in self.state.subjects.items()
            for check in self._checks_of(name, subject)
        ]
        return tuple(
            each
            for each in found
            if each.band or each.failing or not each.on or each.name in self.state.marks
        )

    def _subject(self, seen: Observation) -> SubjectState:
        subjects = self.state.subjects
        found = subjects.get(seen.subject)
        if found is None:
            if len(subjects) >= MAX_SUBJECTS:  # the one that was not seen for longest
                del subjects[min(subjects, key=lambda name: subjects[name].last_at)]
            found = subjects[seen.subject] = SubjectState(watched_since=seen.at)
        found.service = seen.service
        if not 0 <= seen.at - found.last_at <= PAUSE_OF_WATCH_S:
            found.watched_since = seen.at
            for each in found.lasting.values():
                if not each.reported:
                    each.since, each.results = 0.0, 0
            for growth in found.growths.values():
                growth.reset()
        return found

    def _note_restart(self, seen: Observation) -> None:
        if not seen.started_at:
            return
        before = self.state.started.get(seen.service)
        self.state.started[seen.service] = seen.started_at
        if before is None or abs(before - seen.started_at) <= 2.0:
            return
        self.state.restarted[seen.service] = seen.at
        for subject in self.state.subjects.values():
            if subject.service == seen.service:
                for growth in subject.growths.values():
                    growth.reset()

    def _is_quiet(self, seen: Observation, measure: str) -> bool:
        quiet_s = ANSWER_QUIET_S if measure in ANSWER_MEASURES else RESTART_QUIET_S
        return 0 <= seen.at - self.state.restarted.get(seen.service, 0.0) < quiet_s

    def _with_watched_pauses(self, seen: Observation, subject: SubjectState) -> Observation:
        """Only the part of a pause that was watched counts: not a time in which all stood still."""
        if not any(RULES[measure].pause for measure in seen.values):
            return seen
        known_s = seen.at - max(subject.watched_since, self.state.restarted.get(seen.service, 0.0))
        values = {
            measure: min(value, known_s) if RULES[measure].pause else value
            for measure, value in seen.values.items()
        }
        return replace(seen, values=values)

    def _accept_by_people(self, seen: Observation, subject: SubjectState) -> None:
        for measure in _measures(seen):
            at = self.mark(check_name(seen.subject, measure)).accepted_at
            if at > subject.accepted.get(measure, 0.0):
                subject.accepted[measure] = at
                _accept(subject, measure, seen.at)

    def _follow(
        self,
        seen: Observation,
        subject: SubjectState,
        measure: str,
        deviation: Deviation | None,
    ) -> LearnedVerdict | None:
        lasting = subject.lasting.get(measure)
        if deviation is None:
            if lasting is None:
                return None
            return self._follow_fine_result(seen, subject, lasting, measure)
        if lasting is None:
            lasting = subject.lasting[measure] = LastingDeviation()
        lasting.fine, lasting.last_at = 0, seen.at
        lasting.since, lasting.results = lasting.since or seen.at, lasting.results + 1
        lasting.detail, lasting.severity = deviation.words, deviation.severity
        lasting.calm_s, lasting.limit = deviation.calm_s, deviation.limit
        if not lasting.reported:
            if not seen.healthy or not _lasts_long_enough(lasting, deviation):
                return None
            lasting.reported = True
            lasting.question = self._release_question(seen, lasting, deviation)
        if lasting.question and seen.healthy and seen.at - lasting.since >= ACCEPT_CHANGE_S:
            _accept(subject, measure, seen.at)
            return self._verdict(seen, measure, lasting, failing=False)
        return self._verdict(seen, measure, lasting, failing=True)

    def _release_question(
        self, seen: Observation, lasting: LastingDeviation, deviation: Deviation
    ) -> str:
        began_s = lasting.since - self.state.restarted.get(seen.service, 0.0)
        released = deviation.by_release and began_s <= RELEASE_WINDOW_S + RESTART_QUIET_S
        return RELEASE_QUESTION if released else ""

    def _follow_fine_result(
        self, seen: Observation, subject: SubjectState, lasting: LastingDeviation, measure: str
    ) -> LearnedVerdict | None:
        lasting.fine += 1
        if not lasting.reported:
            if lasting.since and seen.at - lasting.last_at >= lasting.calm_s:
                lasting.end()
            return None
        if is_near_limit(seen, subject, measure):
            lasting.fine = 0
        calm = seen.at - lasting.last_at >= lasting.calm_s / 2
        if lasting.fine < RESULTS_TO_LEAVE or not calm:
            return self._verdict(seen, measure, lasting, failing=True)
        over = self._verdict(seen, measure, lasting, failing=False)
        lasting.end()
        return over

    def _verdict(
        self, seen: Observation, measure: str, lasting: LastingDeviation, *, failing: bool
    ) -> LearnedVerdict:
        """A check that raises no alert is listed as failing, and never reported."""
        name = check_name(seen.subject, measure)
        mark = self.mark(name)
        failing = failing and self.raises_alerts(name)
        lesser = mark.weight < 1.0 or bool(lasting.question)
        return LearnedVerdict(
            check=name,
            service=seen.service,
            failing=failing,
            detail=lasting.detail if failing else _end_words(self.raises_alerts(name)),
            question=lasting.question if failing else "",
            severity="P3" if lesser else lasting.severity,
        )

    def _is_failing(self, seen: Observation) -> bool:
        """Return whether any learned check of the service is reported: then nothing is learned."""
        return any(
            lasting.reported and self.raises_alerts(check_name(name, measure))
            for name, subject in self.state.subjects.items()
            if (subject.service == seen.service if seen.service else name == seen.subject)
            for measure, lasting in subject.lasting.items()
        )

    def mark(self, name: str) -> CheckMark:
        """Record what people said about a check, by a command or by a setting."""
        mark = self.state.mark(name)
        measure = name.rpartition("-")[2]
        if any(each == measure or fnmatchcase(name, each) for each in self._off):
            return replace(mark, on=False)
        return mark

    def raises_alerts(self, name: str) -> bool:
        mark = self.mark(name)
        return mark.on and mark.weight >= MIN_REPORTED_WEIGHT

    def _checks_of(self, name: str, subject: SubjectState) -> Iterator[LearnedCheck]:
        if subject.answer is not None:
            for measure in ANSWER_MEASURES:
                if measure in ("shape", "content") and not subject.answer.shaped:
                    continue
                band = "anything else" if answer_is_ready(subject.answer, measure) else ""
                reason = answer_reason(subject.answer, measure)
                yield self._check(name, subject, measure, reason, band)
        for measure, summary in subject.numbers.items():
            rule = RULES[measure]
            weight = max(self.mark(check_name(name, measure)).weight, MIN_WEIGHT)
            band = number_band(rule, summary, weight) if is_ready(rule, summary) else ""
            yield self._check(name, subject, measure, number_reason(rule, summary), band)

    def _check(
        self, subject: str, state: SubjectState, measure: str, reason: str = "", band: str = ""
    ) -> LearnedCheck:
        name = check_name(subject, measure)
        mark, lasting = self.mark(name), state.lasting.get(measure)
        failing = lasting is not None and lasting.reported
        return LearnedCheck(
            name=name,
            service=state.service,
            subject=subject,
            measure=measure,
            reason=reason,
            band=band,
            weight=mark.weight,
            on=mark.on,
            failing=failing,
            detail=lasting.detail if lasting is not None and failing else "",
            false_alarms=mark.false_alarms,
        )


def judge_observation(
    seen: Observation, subject: SubjectState, weights: Mapping[str, float] | None = None
) -> Iterator[Deviation]:
    """Return how one observation differs from what is known. Nothing is learned, and no time must
    pass: this also checks a fix or an experiment."""
    weights = weights or {}
    if seen.answer is not None and subject.answer is not None:
        yield from judge_answer(subject.answer, seen.answer, weights)
    for measure, value in seen.values.items():
        summary = subject.numbers.get(measure)
        if summary is None:
            continue
        growth, weight = subject.growths.get(measure), weights.get(measure, 1.0)
        deviation = judge_number(RULES[measure], summary, growth, value, seen.at, weight)
        if deviation is not None:
            yield deviation


def _measures(seen: Observation) -> Iterator[str]:
    if seen.answer is not None:
        yield from ANSWER_MEASURES
    yield from seen.values


def _growths(seen: Observation, subject: SubjectState) -> Iterator[tuple[str, Growth]]:
    for measure in seen.values:
        if RULES[measure].growth_s:
            yield measure, subject.growths.setdefault(measure, Growth())


def _lasts_long_enough(lasting: LastingDeviation, deviation: Deviation) -> bool:
    rule = RULES.get(deviation.measure)
    is_pause = rule is not None and rule.pause
    needed_s = max(deviation.hold_s, LONGER_THAN_BEFORE * lasting.longest_s)
    enough = lasting.results >= (2 if is_pause else MIN_RESULTS)
    return enough and lasting.last_at - lasting.since >= needed_s


def is_near_limit(seen: Observation, subject: SubjectState, measure: str) -> bool:
    """Return whether a reported number is still too close to its limit to be fine."""
    limit, value = subject.lasting[measure].limit, seen.values.get(measure)
    if limit is None or value is None:
        return False
    rule = RULES[measure]
    if rule.low:
        return value * LEAVE_SHARE < limit
    growth = subject.growths.get(measure)
    drained = growth is not None and value <= DRAINED_SHARE * growth.peak
    return value > LEAVE_SHARE * limit and not drained


def _learn(
    seen: Observation,
    subject: SubjectState,
    measures: list[str],
    deviations: Mapping[str, Deviation],
) -> None:
    differs = {*ANSWER_MEASURES} & {*deviations}
    if seen.answer is not None and "status" in measures and not differs:
        subject.answer = subject.answer or AnswerSummary()
        subject.answer.learn(seen.answer, seen.at)
    for measure in measures:
        if measure in ANSWER_MEASURES or measure in deviations:
            continue
        rule, value = RULES[measure], seen.values[measure]
        summary = subject.numbers.setdefault(measure, NumberSummary())
        accepted = subject.accepting.get(measure, 0.0) >= seen.at
        growth = subject.growths.get(measure)
        if growth and not accepted and is_suspect_growth(rule, summary, growth):
            continue
        recent = subject.recent.setdefault(measure, [])
        if rule.pause:
            # A pause is learned when it has ended: one that goes on may be the failure.
            if recent and value < recent[0] + seen.at - recent[1] - 1.0:
                summary.learn(recent[0], seen.at)
            recent[:] = [value, seen.at]
            continue
        recent[:] = [*recent, value][-SMOOTHED_VALUES:]
        summary.learn(median(recent) if rule.smoothed else value, seen.at)


def _accept(subject: SubjectState, measure: str, at: float) -> None:
    """The behaviour at this time is right: learn it in addition to what is known."""
    subject.accepting[measure] = at + ACCEPTING_S
    if lasting := subject.lasting.get(measure):
        lasting.end()
    if growth := subject.growths.get(measure):
        growth.longest_s = max(growth.longest_s, at - growth.since if growth.since else 0.0)
        growth.reset()


def _end_words(reports: bool) -> str:
    return "as it was learned" if reports else "it is switched off, or its weight is too low"
