"""Says how an observation differs from what was learned, in words; pure functions.

A limit is far beyond all that was seen, not a likely range: a check that was not declared must not
report what an operator would call usual. Numbers are judged only once a whole day is known.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Literal

from hermes.core.messages import Value
from hermes.plumbing.units import format_size
from hermes.sre.probes.answer_facts import (
    ABSENT,
    EMPTY_LIST,
    NOT_JSON,
    NULL,
    ROOT_PATH,
    AnswerFacts,
)
from hermes.sre.probes.learned.summaries import (
    AnswerSummary,
    Growth,
    NumberSummary,
    shape_kinds,
)

DeviationSeverity = Literal["P2", "P3"]
MIN_ANSWERS, MIN_ANSWERS_S = 200, 4 * 3600.0
MIN_VALUES, MIN_ENDED_PAUSES = 60, 15
MAX_SHOWN_KEYS = 8
MIN_RESULTS = 5
"""Deviating results in a row, whatever time they take."""
GRAVE_CALM_S = 600.0
REGULAR_SHARE = 3.5
"""The longest pause of a regular log, in mean pauses; one at random times has far longer ones."""
MIN_REGULAR_PAUSE_S = 1.0
MIN_PAUSES = 10
"""So many of the longest pauses must fit into the time in which a log was learned."""
STEADY_SHARE = 0.3
"""The share of a rise in its second half; less is a rise that ends."""
LONGER_THAN_USUAL = 3.0
"""How many times longer than any earlier rise a reported one lasts."""


class Deviation(Value, kw_only=True, frozen=True):
    """How one observation differs from what was learned."""

    measure: str
    words: str
    hold_s: float
    """How long it must last before it is reported."""
    severity: DeviationSeverity = "P3"
    by_release: bool = True
    """Whether a release may cause it on purpose: after a restart it is a question."""
    limit: float | None = None
    """The value that it must clearly leave before it is over."""
    calm_s: float = 0.0
    """Fine results of so long end it; until then single ones do not: one of two servers may
    answer well."""


class NumberRule(Value, kw_only=True, frozen=True):
    measure: str
    words: str
    """What is measured, as in `{value} …`."""
    unit: str = ""
    factor: float = 0.0
    """The limit, as a multiple of the highest value; 0 where only growth is judged."""
    regular_factor: float = 0.0
    """The same for pauses of about equal length, which are judged before a day is known."""
    floor: float = 0.0
    """Added to the limit."""
    hold_s: float = 600.0
    min_learned_s: float = 4 * 3600.0
    low: bool = False
    """Whether a value far below the lowest deviates, instead of one far above the highest."""
    smoothed: bool = True
    """Whether the median of the last values counts, not a single one."""
    pause: bool = False
    """Whether it is a time since something happened last: it lasts long enough by definition."""
    only_regular: bool = False
    growth_s: float = 0.0
    """For how long a number must have grown steadily; 0: growth is not judged."""
    growth_factor: float = 2.0
    """How many times the earlier maximum it must have reached by then."""


RULES: dict[str, NumberRule] = {
    rule.measure: rule
    for rule in (
        NumberRule(
            measure="latency",
            words="for an answer",
            unit="s",
            factor=4.0,
            floor=0.25,
        ),
        NumberRule(measure="size", words="in an answer", unit="B", factor=5.0, low=True),
        NumberRule(
            measure="errors",
            words="lines a minute report errors",
            factor=4.0,
            floor=2.0,
            hold_s=900.0,
        ),
        NumberRule(
            measure="silence",
            words="without a new line",
            unit="s",
            factor=8.0,
            regular_factor=6.0,
            floor=60.0,
            hold_s=0.0,
            smoothed=False,
            pause=True,
        ),
        NumberRule(
            measure="standstill",
            words="without any processor time",
            unit="s",
            factor=6.0,
            regular_factor=6.0,
            floor=120.0,
            hold_s=0.0,
            smoothed=False,
            pause=True,
            only_regular=True,
        ),
        NumberRule(
            measure="runs",
            words="since its last run",
            unit="s",
            regular_factor=3.0,
            floor=60.0,
            hold_s=0.0,
            smoothed=False,
            pause=True,
            only_regular=True,
        ),
        NumberRule(
            measure="descriptors",
            words="open descriptors",
            factor=3.0,
            floor=64.0,
            growth_s=6 * 3600.0,
        ),
        NumberRule(
            measure="memory",
            words="of memory",
            unit="kB",
            factor=3.0,
            floor=131_072.0,
            hold_s=1800.0,
            growth_s=6 * 3600.0,
        ),
        NumberRule(
            measure="queue",
            words="waiting jobs",
            floor=20.0,
            hold_s=0.0,
            growth_s=1800.0,
        ),
    )
}
"""The measures that are numbers."""
ANSWER_MEASURES = ("status", "type", "shape", "content")


def is_regular(summary: NumberSummary) -> bool:
    """Return whether the pauses in a log are about equally long, as those of a worker with a
    timer."""
    found = summary.extremes()
    mean = summary.mean
    return found is not None and mean >= MIN_REGULAR_PAUSE_S and found[1] <= REGULAR_SHARE * mean


def is_ready(rule: NumberRule, summary: NumberSummary) -> bool:
    """Return whether enough was seen over enough time."""
    needed = MIN_ENDED_PAUSES if rule.pause else MIN_VALUES
    learned_s = summary.learned_s
    if rule.pause:  # each was watched from its begin to its end
        learned_s = max(learned_s, summary.count * summary.mean)
    if summary.count < needed or learned_s < rule.min_learned_s:
        return False
    if rule.pause:
        found = summary.extremes()
        enough = found is not None and learned_s >= MIN_PAUSES * found[1]
        regular = is_regular(summary)
        return enough and (regular or (summary.knows_a_day and not rule.only_regular))
    return summary.knows_a_day


def limit_of(rule: NumberRule, summary: NumberSummary, weight: float = 1.0) -> float | None:
    """The value beyond which it deviates; None while no level is judged."""
    known = summary.extremes()
    if known is None or not is_ready(rule, summary):
        return None
    regular = rule.pause and is_regular(summary)
    factor = rule.regular_factor if regular else rule.factor
    if not factor:
        return None
    factor = 1 + (factor - 1) / weight
    if rule.low:
        return known[0] / factor
    return known[1] * factor + rule.floor / weight


def judge_number(
    rule: NumberRule,
    summary: NumberSummary,
    growth: Growth | None,
    value: float,
    at: float,
    weight: float = 1.0,
) -> Deviation | None:
    """`value`: already smoothed, where the rule asks for it."""
    limit = limit_of(rule, summary, weight)
    if limit is not None and (value < limit if rule.low else value > limit):
        known = summary.extremes() or (value, value)
        usual = f"at least {_amount(rule, known[0])}" if rule.low else _at_most(rule, known[1])
        words = f"{_amount(rule, value)} {rule.words}; usual is {usual} ({_since(summary)})"
        return Deviation(
            measure=rule.measure,
            words=words,
            hold_s=rule.hold_s / weight,
            by_release=not rule.pause,
            limit=limit,
        )
    return _judge_growth(rule, summary, growth, value, at, weight)


def _judge_growth(
    rule: NumberRule,
    summary: NumberSummary,
    growth: Growth | None,
    value: float,
    at: float,
    weight: float,
) -> Deviation | None:
    if not rule.growth_s or growth is None or not growth.since or not is_ready(rule, summary):
        return None
    risen = growth.state(at)
    if risen.lasting_s < max(rule.growth_s, LONGER_THAN_USUAL * growth.longest_s) / weight:
        return None
    before = summary.extremes(before=growth.since)
    highest = before[1] if before is not None else growth.start
    limit = highest * rule.growth_factor + rule.floor / weight
    if value <= limit or risen.late_share < STEADY_SHARE or value < 0.9 * growth.peak:
        return None
    words = (
        f"{_amount(rule, value)} {rule.words}, growing for {_duration(risen.lasting_s)} from "
        f"{_amount(rule, growth.start)}; before that at most {_amount(rule, highest)} "
        f"({_since(summary)})"
    )
    return Deviation(measure=rule.measure, words=words, hold_s=0.0, by_release=False, limit=limit)


def is_suspect_growth(rule: NumberRule, summary: NumberSummary, growth: Growth) -> bool:
    """Return whether a rise has passed all earlier values: not learned until it ends."""
    if not rule.growth_s or not growth.since:
        return False
    before = summary.extremes(before=growth.since)
    return before is not None and growth.peak > before[1] * rule.growth_factor + rule.floor


def judge_answer(
    summary: AnswerSummary, facts: AnswerFacts, weights: Mapping[str, float] | None = None
) -> Iterator[Deviation]:
    """Return how an answer differs from all answers of the page while it was healthy."""
    if not answer_is_ready(summary, "status"):
        return
    weight = weights or {}
    since = f"in {summary.count} of {summary.count} answers since {_time(summary.first_at)}"
    if str(facts.status) not in summary.statuses:
        words = f"answers {facts.status}; it was {_either(summary.statuses)} {since}"
        yield _answer_deviation("status", words, weight, 180.0)
        return
    if facts.content_type not in summary.content_types:
        words = (
            f"answers {facts.status} with {facts.content_type or 'no content type'}; it was "
            f"{_either(summary.content_types)} {since}"
        )
        yield _answer_deviation("type", words, weight, 180.0)
    if not answer_is_ready(summary, "shape") or not facts.complete:
        return
    gravest, lesser = _shape_differences(summary, facts)
    shaped = f"in {summary.shaped} of {summary.shaped} answers since {_time(summary.first_at)}"
    if gravest:
        words = f"answers {facts.status}, but {_list(gravest)}; different {shaped}"
        yield _answer_deviation("shape", words, weight, 180.0)
    elif lesser and answer_is_ready(summary, "content"):
        words = f"answers {facts.status}, but {_list(lesser)}; different {shaped}"
        hold_s = 900.0 / weight.get("content", 1.0)
        yield Deviation(measure="content", words=words, hold_s=hold_s)


def _answer_deviation(
    measure: str, words: str, weights: Mapping[str, float], hold_s: float
) -> Deviation:
    hold_s /= weights.get(measure, 1.0)
    return Deviation(
        measure=measure, words=words, hold_s=hold_s, severity="P2", calm_s=GRAVE_CALM_S
    )


def _shape_differences(summary: AnswerSummary, facts: AnswerFacts) -> tuple[list[str], list[str]]:
    """Differences that no amount of data explains, and those that may be a quiet time."""
    if not facts.shape:
        return ["its body is not JSON"], []
    gravest, lesser = [], []
    for path, kind in shape_kinds(facts, [*summary.paths]):
        known = summary.paths.get(path)
        if known is None or kind in known.kinds:
            continue
        what = f"`{path}`" if path != ROOT_PATH else "its body"
        if kind == ABSENT:
            gravest.append(f"{what} is missing")
        elif kind in (NULL, EMPTY_LIST):
            if len(facts.shape[path]) == 1:  # not only in some of the elements
                lesser.append(f"{what} is {'null' if kind == NULL else 'an empty list'}")
        elif kind == NOT_JSON:
            gravest.append(f"{what} is not JSON")
        elif not _was_only_void(known.kinds):
            gravest.append(f"{what} is {kind} instead of {_either(known.kinds)}")
    return gravest, lesser


def _was_only_void(kinds: dict[str, int]) -> bool:
    """Return whether a value was never seen there: its type is not known yet."""
    return {*kinds} <= {NULL, EMPTY_LIST, ABSENT}


def answer_is_ready(summary: AnswerSummary, measure: str) -> bool:
    if summary.count < MIN_ANSWERS or summary.learned_s < MIN_ANSWERS_S:
        return False
    if measure in ("status", "type"):
        return True
    shaped = summary.shaped >= MIN_ANSWERS and not summary.unshaped
    return shaped and (measure == "shape" or summary.knows_a_day)


def answer_reason(summary: AnswerSummary, measure: str) -> str:
    """Return why the check exists, in plain words."""
    counted = f"in {summary.count} of {summary.count} answers since {_time(summary.first_at)}"
    status = _either(summary.statuses)
    if measure == "status":
        return f"answers {status} {counted}"
    if measure == "type":
        return f"answers {status} with {_either(summary.content_types)} {counted}"
    keys = [path for path, known in summary.paths.items() if path and ABSENT not in known.kinds]
    if measure == "content":
        keys = [
            path
            for path in keys
            if not {NULL, EMPTY_LIST} & {*summary.paths[path].kinds} and not path.endswith("[]")
        ]
    shown = ", ".join(keys[:MAX_SHOWN_KEYS]) + (", …" if len(keys) > MAX_SHOWN_KEYS else "")
    with_keys = f"with the keys {shown}" if shown else "with a JSON body"
    never = ", none of them null or an empty list," if measure == "content" else ""
    return f"answers {status} {with_keys}{never} {counted}"


def number_reason(rule: NumberRule, summary: NumberSummary) -> str:
    known = summary.extremes()
    if known is None:
        return "nothing is known yet"
    low, high = known
    bound = f"at least {_amount(rule, low)}" if rule.low else _at_most(rule, high)
    return f"{bound} {rule.words} ({_since(summary)})"


def number_band(rule: NumberRule, summary: NumberSummary, weight: float) -> str:
    """The limit in words; empty while there is none."""
    limit = limit_of(rule, summary, weight)
    parts = []
    if limit is not None:
        parts.append(f"{'below' if rule.low else 'above'} {_amount(rule, limit)}")
    if rule.growth_s and is_ready(rule, summary):
        parts.append(f"growing for {_duration(rule.growth_s / weight)} or more")
    return " or ".join(parts)


def _at_most(rule: NumberRule, value: float) -> str:
    return f"at most {_amount(rule, value)}"


def _since(summary: NumberSummary) -> str:
    return f"{summary.count} values since {_time(summary.first_at)}"


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def _amount(rule: NumberRule, value: float) -> str:
    if rule.unit == "s":
        return f"{value:.3g} s" if value < 120 else _duration(value)
    if rule.unit in ("B", "kB"):
        return format_size(value * (1024 if rule.unit == "kB" else 1))
    return f"{value:.4g}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def _either(counts: dict[str, int]) -> str:
    return " or ".join(key or "no content type" for key in sorted(counts))


def _list(parts: list[str]) -> str:
    more = len(parts) - 3
    return ", ".join(parts[:3]) + (f" and {more} more" if more > 0 else "")
