"""What must hold for any document: more rules never loosen, and the floor never gives way."""

from datetime import timedelta
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st
from policy_setup import NOON, book, deed, exception_text, policy_text, step

from hermes.policy.actions.action_effects import (
    ActionEffects,
    ActionLocation,
    ActionStep,
    IncidentFacts,
)
from hermes.policy.commands.effects import ALWAYS_DENIED_EFFECTS
from hermes.policy.rules.documents import COMMAND_EFFECTS
from hermes.policy.rules.evaluation import RateCounter, RuleSet, evaluate
from hermes.policy.rules.rule import STRICTNESS

ORDER = ("allow", "dry-run", "ask", "deny")
PROGRAMS = ("rm", "ls", "git", "/tmp/x/rm", "")
PATHS = ("/tmp/x", "/srv/app/y", "/etc/z", "/tmp/*", "…")
COMMON = tuple(effect for effect in COMMAND_EFFECTS if effect not in ALWAYS_DENIED_EFFECTS)


def subsets(values: tuple[str, ...], least: int = 1) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=least, max_size=4, unique=True)


# Each strategy is made once: making one takes longer than drawing from it.
YES_OR_NO = st.booleans()
TRUTHS = st.sampled_from(["true", "false"])
RULE_EFFECTS = subsets(COMMAND_EFFECTS)
RULE_PROGRAMS = st.sampled_from(["rm", "ls", "git", "/tmp/x/rm"])
FOLDERS = st.sampled_from(["/tmp", "/srv", "/etc", ".", "/"])
PATH_KEYS = st.sampled_from(["paths", "changes"])
CONDITIONS = st.sampled_from(["now.hour < 8", "action.argv[5] == action.tool", "true"])
MODES = st.sampled_from(["enforce", "enforce", "audit"])
VERDICTS = st.sampled_from(ORDER)
DECISIONS = st.sampled_from(
    ["", "rate_limit: {max: 1, per: 1h}", "approvers: {count: 2, from: [a]}"]
)
LIFTED_RULES = st.sampled_from(['["*"]', "[p0, default-asks]", "[default-asks, tainted-asks]"])
UP_TO_TWO, UP_TO_THREE, UP_TO_FOUR = (st.integers(0, most) for most in (2, 3, 4))
STEP_PROGRAMS = st.sampled_from(PROGRAMS)
STEP_PATHS = st.lists(st.sampled_from(PATHS), max_size=3)
SEVERITIES = st.sampled_from(["", "P0"])


@st.composite
def clauses(draw: st.DrawFn) -> str:
    fields = []
    if draw(YES_OR_NO):
        fields.append(f"effects: [{', '.join(draw(RULE_EFFECTS))}]")
    if draw(YES_OR_NO):
        fields.append(f"program: [{draw(RULE_PROGRAMS)}]")
    if draw(YES_OR_NO):
        folder, key = draw(FOLDERS), draw(PATH_KEYS)
        fields.append(f"{key}: {{under: [{folder}]}}")
    if draw(YES_OR_NO):
        fields.append(f"target: {{isolated: {draw(TRUTHS)}}}")
    if draw(YES_OR_NO):
        fields.append(f"actor: {{tainted: {draw(TRUTHS)}}}")
    if draw(UP_TO_THREE) == 0:
        fields.append(f'when: "{draw(CONDITIONS)}"')
    return "{" + ", ".join(fields) + "}"


CLAUSES = clauses()


@cache
@st.composite
def policies(draw: st.DrawFn, name: str, effect: str = "") -> str:
    more = {"mode": draw(MODES)}
    if draw(YES_OR_NO):
        more["exclude"] = draw(CLAUSES)
    effect = effect or draw(VERDICTS)
    decide = draw(DECISIONS)
    if effect == "ask" and draw(YES_OR_NO):
        decide = "announce: 30s"
    if decide:
        more["decide"] = decide
    return policy_text(name, effect, draw(CLAUSES), **more)


@st.composite
def books(draw: st.DrawFn) -> str:
    text = "".join(draw(policies(f"p{n}")) for n in range(draw(UP_TO_FOUR)))
    for number in range(draw(UP_TO_TWO)):
        lifted = draw(LIFTED_RULES)
        text += exception_text(f"x{number}", lifted, draw(CLAUSES))
    return text


@st.composite
def steps(draw: st.DrawFn, effects: tuple[str, ...] = COMMAND_EFFECTS) -> ActionStep:
    paths = tuple(draw(STEP_PATHS))
    return step(
        " ".join(draw(STEP_EFFECTS[effects])),
        program=draw(STEP_PROGRAMS),
        paths=paths,
        changes=paths[: draw(UP_TO_THREE)],
    )


STEP_EFFECTS = {effects: subsets(effects) for effects in (COMMAND_EFFECTS, COMMON)}
STEPS = {effects: st.lists(steps(effects), min_size=1, max_size=3) for effects in STEP_EFFECTS}


@st.composite
def deeds(draw: st.DrawFn, effects: tuple[str, ...] = COMMAND_EFFECTS) -> ActionEffects:
    return deed(
        *draw(STEPS[effects]),
        tainted=draw(YES_OR_NO),
        where=ActionLocation(place="local", host="here", isolated=draw(YES_OR_NO)),
        incident=IncidentFacts(severity=draw(SEVERITIES)),
    )


def strictness(rules: RuleSet, what: ActionEffects, *, used: bool) -> tuple[int, bool]:
    rates = RateCounter(lambda: 10.0)
    if used:
        for rule in rules.rules:
            rates.record(rule.name, "", max_kept=1)
    verdict = evaluate(rules, what, now=NOON, rates=rates)
    waits = verdict.ask is None or verdict.ask.announce == 0
    return ORDER.index(verdict.verdict), waits


@settings(max_examples=300, deadline=None)
@given(books(), policies("added"), deeds(COMMON), st.booleans())
def test_a_rule_more_never_loosens_except_by_saying_so_where_the_default_asked(
    text: str, added: str, what: ActionEffects, used: bool
) -> None:
    before, after = book(text), book(text + added)
    was, now = strictness(before, what, used=used), strictness(after, what, used=used)
    if now >= was:
        return
    (rule,) = [rule for rule in after.rules if rule.name == "added"]
    assert rule.rank < STRICTNESS["ask"], "only what says so, an allow or a milder question, may"
    verdict = evaluate(before, what, now=NOON)
    assert "default-asks" in (verdict.rule, *verdict.also)


@settings(max_examples=200, deadline=None)
@given(books(), deeds(COMMON), st.sampled_from(sorted(ALWAYS_DENIED_EFFECTS)), st.integers(0, 3))
def test_the_floor_holds_under_any_document(
    text: str, what: ActionEffects, sunk: str, place: int
) -> None:
    bad = step(f"read write {sunk}", program="ls", paths=("/tmp/x",), changes=("/tmp/x",))
    steps = list(what.steps)
    steps.insert(place % (len(steps) + 1), bad)
    verdict = evaluate(book(text), deed(*steps, where=what.where), now=NOON)
    assert verdict.verdict == "deny"


@settings(max_examples=200, deadline=None)
@given(books(), deeds())
def test_an_audit_rule_changes_no_verdict(text: str, what: ActionEffects) -> None:
    with_audits, now = book(text), NOON
    without = RuleSet(with_audits.rules, (), with_audits.exceptions, with_audits.ask)
    seen, unseen = evaluate(with_audits, what, now=now), evaluate(without, what, now=now)
    assert (seen.verdict, seen.rule, seen.ask) == (unseen.verdict, unseen.rule, unseen.ask)


@settings(max_examples=200, deadline=None)
@given(books(), deeds(COMMON))
def test_what_is_tainted_and_changes_something_never_simply_runs(
    text: str, what: ActionEffects
) -> None:
    if not what.tainted or what.is_read_only or "tainted-asks" in text:
        return
    assert strictness(book(text), what, used=False) >= (ORDER.index("ask"), True)


@settings(max_examples=200, deadline=None)
@given(books(), deeds(COMMON))
def test_an_exception_past_its_day_is_as_if_it_were_not_there(
    text: str, what: ActionEffects
) -> None:
    rules, later = book(text), NOON + timedelta(days=400)
    without = RuleSet(rules.rules, rules.audit_rules, (), rules.ask)
    expired, absent = evaluate(rules, what, now=later), evaluate(without, what, now=later)
    assert (expired.verdict, expired.rule, expired.lifted) == (absent.verdict, absent.rule, ())


@settings(max_examples=100, deadline=None)
@given(books(), deeds(COMMON), deeds(COMMON))
def test_a_deed_is_never_judged_laxer_than_one_of_its_steps(
    text: str, one: ActionEffects, other: ActionEffects
) -> None:
    rules = book(text)
    both = deed(*one.steps, *other.steps, where=one.where, tainted=one.tainted)
    alone = deed(*one.steps, where=one.where, tainted=one.tainted)
    assert strictness(rules, both, used=False) >= strictness(rules, alone, used=False)
