"""Verdicts as tables: the strictest match wins, step by step, and the floor holds."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from policy_setup import NOON, WORK, book, deed, exception_text, policy_text, step

from hermes.policy.actions.action_effects import (
    ActionEffects,
    ActionLocation,
    ActionStep,
    IncidentFacts,
)
from hermes.policy.rules.evaluation import RateCounter, evaluate, near_misses, record_rates
from hermes.policy.rules.rule import PolicyVerdict

P, X = policy_text, exception_text
READ, WRITE, DELETE = step("read"), step("write", program="tee"), step("delete", program="rm")


def verdict(text: str, *steps: ActionStep, now: datetime = NOON, **more: Any) -> PolicyVerdict:
    return evaluate(book(text), deed(*steps, **more), now=now)


RM = "{program: rm}"
TABLE: list[tuple[str, str, tuple[ActionStep, ...], str, str]] = [
    ("nothing matches a read", "", (READ,), "allow", "default-reads"),
    ("nothing matches a write", "", (WRITE,), "ask", "default-asks"),
    ("no step at all", "", (), "allow", "default-reads"),
    ("allow where the default asks", P("a", "allow", RM), (DELETE,), "allow", "a"),
    ("ask beats allow", P("a", "allow", RM) + P("b", "ask", RM), (DELETE,), "ask", "b"),
    ("dry-run beats allow", P("a", "allow", RM) + P("b", "dry-run", RM), (DELETE,), "dry-run", "b"),
    ("ask beats dry-run", P("a", "ask", RM) + P("b", "dry-run", RM), (DELETE,), "ask", "a"),
    ("deny beats all", P("a", "deny", RM) + P("b", "ask", RM), (DELETE,), "deny", "a"),
    ("deny may stop a read", P("a", "deny", "{effects: read}"), (READ,), "deny", "a"),
    ("leave for one is not leave for its neighbour", P("a", "allow", "{program: tee}"),
     (WRITE, DELETE), "ask", "default-asks"),
    ("the strictest step decides", P("a", "deny", RM), (READ, WRITE, DELETE), "deny", "a"),
    ("an allow must name every effect", P("a", "allow", "{effects: read}"),
     (step("read delete"),), "ask", "default-asks"),
    ("looking need not be named", P("a", "allow", "{effects: delete}"),
     (step("read delete network-read"),), "allow", "a"),
    ("a dry-run for a part is not one for the whole", P("a", "dry-run", "{effects: write}"),
     (step("write network-out"),), "ask", "default-asks"),
    ("a dry-run for the whole is", P("a", "dry-run", "{effects: write}"),
     (step("write read"),), "dry-run", "a"),
    ("an ask needs only one of them", P("a", "ask", "{effects: delete}"),
     (step("read delete"),), "ask", "a"),
    ("an allow by program sees through no folder",
     P("a", "allow", RM), (step("delete", program="/tmp/x/rm"),), "ask", "default-asks"),
    ("but through those of the system",
     P("a", "allow", "{program: rm}"), (step("delete", program="/usr/bin/rm"),), "allow", "a"),
    ("a deny by program sees through every folder",
     P("a", "deny", "{program: rm}"), (step("delete", program="/tmp/x/rm"),), "deny", "a"),
    ("audit never decides", P("a", "deny", RM, mode="audit"), (DELETE,), "ask", "default-asks"),
    ("audit never loosens", P("a", "allow", RM, mode="audit"), (DELETE,), "ask", "default-asks"),
    ("an exclusion", P("a", "deny", RM, exclude="{flags: -i}"),
     (step("delete", program="rm", flags=("-i",)),), "ask", "default-asks"),
    ("an exclusion from a deny must cover all",
     P("a", "deny", RM, exclude="{paths: {under: [/tmp]}}"),
     (step("delete", program="rm", paths=("/tmp/x", "/srv/y")),), "deny", "a"),
    ("an exclusion from an allow needs to touch one",
     P("a", "allow", RM, exclude="{paths: {under: [/srv]}}"),
     (step("delete", program="rm", paths=("/tmp/x", "/srv/y")),), "ask", "default-asks"),
    ("an exception lifts what it names", P("a", "deny", RM) + X("x", "[a, default-asks]", RM),
     (DELETE,), "allow", "x"),
    ("and no more: the default still asks", P("a", "deny", RM) + X("x", "[a]", RM),
     (DELETE,), "ask", "default-asks"),
    ("other rules still hold", P("a", "deny", RM) + P("b", "ask", RM) + X("x", "[a]", RM),
     (DELETE,), "ask", "b"),
    ("an exception for everything", P("a", "deny", RM) + X("x", '["*"]', "{}"),
     (DELETE,), "allow", "x"),
    ("an expired exception lifts nothing", P("a", "deny", RM) + X("x", '["*"]', RM, "2026-03-01"),
     (DELETE,), "deny", "a"),
    ("the floor: wiping", X("x", '["*"]', "{}") + P("a", "allow", "{}"),
     (step("write irreversible wipe", program="mkfs"),), "deny", "floor:wipe"),
    ("the floor: our own files", X("x", '["*"]', "{}"), (step("write self-change"),),
     "deny", "floor:self-change"),
    ("the floor: fork bombs", X("x", '["*"]', "{}"), (READ, step("fork-bomb")),
     "deny", "floor:fork-bomb"),
    ("all clauses of all", P("a", "deny", "{}").replace(
        "match: {any: [{}]}", "match: {all: [{program: rm}, {effects: delete}]}"),
     (step("write", program="rm"),), "ask", "default-asks"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "steps", "expected", "rule"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_verdicts(text: str, steps: tuple[ActionStep, ...], expected: str, rule: str) -> None:
    found = verdict(text, *steps)
    assert (found.verdict, found.rule) == (expected, rule)


def in_(**where: Any) -> dict[str, Any]:
    return {"where": ActionLocation(**{"place": "local", "host": "here", **where})}


FIELDS: list[tuple[str, ActionStep, dict[str, Any], bool]] = [
    ("{tool: terminal}", DELETE, {}, True),
    ('{tool: "mcp:*"}', DELETE, {"tool": "mcp:jira:close"}, True),
    ('{tool: "mcp:*"}', DELETE, {}, False),
    ("{program: [find, rm]}", DELETE, {}, True),
    ('{program: "mkfs*"}', step("write", program="mkfs.ext4"), {}, True),
    ("{program: /opt/x/rm}", step("write", program="/opt/x/rm"), {}, True),
    ("{flags: [-r, --recursive]}", step("delete", flags=("-r", "-f")), {}, True),
    ("{verb: push}", step("write", program="git", argv=("git", "-C", "x", "push")), {}, True),
    ("{verb: push}", step("write", program="git", argv=("git", "pull")), {}, False),
    ("{via: sudo}", step("delete", via=("sudo", "xargs")), {}, True),
    ("{via: sudo}", DELETE, {}, False),
    ("{paths: {under: [/etc]}}", step("write", paths=("/etc/passwd",)), {}, True),
    ("{paths: {under: [/etc]}}", step("write", paths=("/etc",)), {}, True),
    ("{paths: {under: [/etc]}}", step("write", paths=("/etcetera/x",)), {}, False),
    ("{paths: {under: [~/.ssh]}}", step("write", paths=("/home/me/.ssh/config",)), {}, True),
    ("{paths: {under: [.]}}", step("write", paths=(f"{WORK}/x",)), {}, True),
    ("{paths: {under: [.]}}", step("write", paths=("/x",)), {"workspace": "/"}, False),
    ("{paths: {exactly: [/etc/hosts]}}", step("write", paths=("/etc/hosts",)), {}, True),
    ('{paths: {like: ["*/.git/hooks/*"]}}', step("write", paths=("/a/.git/hooks/pre",)), {}, True),
    ("{changes: {under: [/etc]}}", step("write", paths=("/etc/x",), changes=("/y",)), {}, False),
    ("{paths: {under: [/etc]}}", step("write", paths=("/e*/passwd",)), {}, True),
    ("{paths: {under: [/etc]}}", step("write", paths=("/…/passwd",)), {}, True),
    ("{paths: {under: [/etc]}}", step("write", paths=("…",)), {}, True),
    ("{paths: {under: [/etc]}}", step("write", paths=("/srv/*",)), {}, False),
    ("{target: {environment: prod}}", DELETE, in_(environment="prod"), True),
    ("{target: {environment: local}}", DELETE, {}, True),
    ("{target: {environment: local}}", DELETE, in_(environment="prod"), False),
    ("{target: {place: docker}}", DELETE, in_(place="docker"), True),
    ('{target: {service: "postgres*"}}', DELETE, in_(service="postgres-main"), True),
    ("{target: {service: nginx}}", step("write", target={"service": "nginx"}), {}, True),
    ("{target: {host: db1}}", step("write", target={"host": "db1"}), {}, True),
    ("{target: {host: here}}", step("write", target={"host": "db1"}), {}, False),
    ("{target: {namespace: prod}}", step("write", target={"namespace": "prod"}), {}, True),
    ("{target: {isolated: true}}", DELETE, in_(isolated=True), True),
    ("{target: {isolated: false}}", DELETE, in_(isolated=True), False),
    ("{incident: {severity: [P0, P1]}}", DELETE, {"incident": IncidentFacts(severity="P1")}, True),
    ("{incident: {severity: [P0, P1]}}", DELETE, {}, False),
    ("{actor: {origin: [cron, subagent]}}", DELETE, {"origin": "cron"}, True),
    ("{actor: {tainted: true}}", DELETE, {"tainted": True}, True),
    ("{actor: {name: ann}}", DELETE, {"actor": "bob"}, False),
    ("{command: rm x}", DELETE, {"command": " rm x\n"}, True),
    ("{command: rm x}", DELETE, {"command": "rm x y"}, False),
    ('{when: "now.hour < 8 || now.weekday in [5, 6]"}', DELETE, {}, False),
    ('{when: "now.hour == 12 && now.weekday == 0"}', DELETE, {}, True),
    ("""{when: "'delete' in effects && action.program == 'rm'"}""", DELETE, {}, True),
    ("""{when: "action.paths.exists(p, p.startsWith('/etc'))"}""", DELETE, {}, False),
    ("""{when: "target.isolated && actor.origin == 'cron'"}""", DELETE, {"origin": "cron"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "one", "more", "fits"), FIELDS)
def test_a_field_matches_what_it_says(
    clause: str, one: ActionStep, more: dict[str, Any], fits: bool
) -> None:
    found = verdict(P("rule", "deny", clause), one, **more)
    assert (found.rule == "rule") is fits


COVERED = [
    ("{under: [/tmp]}", ("/tmp/x",), True),
    ("{under: [/tmp]}", ("/tmp",), False),
    ("{under: [/tmp]}", ("/tmp/x", "/etc/x"), False),
    ("{under: [/tmp]}", (), False),
    ("{under: [/tmp]}", ("/tmp/*",), False),
    ("{under: [/tmp]}", ("/tmp/*.log",), True),
    ("{under: [/tmp]}", ("/tmp/build/*",), True),
    ("{under: [/tmp]}", ("/tmp/…",), False),
    ("{under: [/tmp]}", ("/tmp/*/../../etc",), False),
    ("{under: [/]}", ("/anything",), True),
    ("{exactly: [/tmp/x]}", ("/tmp/x",), True),
]


@pytest.mark.parametrize(("paths", "changes", "fits"), COVERED)
def test_an_allow_covers_only_what_is_surely_below(
    paths: str, changes: tuple[str, ...], fits: bool
) -> None:
    text = P("rule", "allow", f"{{changes: {paths}}}")
    found = verdict(text, step("write", changes=changes))
    assert (found.verdict == "allow") is fits


def test_a_condition_that_fails_at_run_time_opens_no_door() -> None:
    fails = "{when: 'action.argv[9] == action.tool'}"
    assert verdict(P("a", "allow", fails), DELETE).verdict == "ask"
    assert verdict(P("a", "deny", fails), DELETE).verdict == "deny"
    excused = P("a", "deny", RM, exclude=fails)
    assert verdict(excused, DELETE).verdict == "deny"


def test_a_tainted_change_asks_even_where_it_is_allowed() -> None:
    allow = P("a", "allow", "{}")
    assert verdict(allow, WRITE).verdict == "allow"
    found = verdict(allow, WRITE, tainted=True)
    assert (found.verdict, found.rule) == ("ask", "tainted-asks")
    assert verdict(allow, READ, tainted=True).verdict == "allow"


def test_an_announced_action_that_is_tainted_waits_for_a_person() -> None:
    announced = P("a", "ask", "{}", decide="announce: 30s")
    assert verdict(announced, WRITE).ask.announce == 30  # type: ignore[union-attr]
    found = verdict(announced, WRITE, tainted=True)
    assert found.rule == "tainted-asks"
    assert found.ask is not None
    assert found.ask.announce == 0


def test_taint_is_lifted_only_by_its_own_name() -> None:
    every = X("x", '["*"]', "{}")
    assert verdict(every, WRITE, tainted=True).verdict == "ask"
    named = X("x", '["*", tainted-asks]', "{}")
    assert verdict(named, WRITE, tainted=True).verdict == "allow"


def test_an_announcement_for_a_part_is_a_question_for_the_whole() -> None:
    announced = P("a", "ask", "{effects: service-change}", decide="announce: 30s")
    found = verdict(announced, step("service-change read"))
    assert (found.rule, found.ask.announce) == ("a", 30)  # type: ignore[union-attr]
    found = verdict(announced, step("service-change network-out"))
    assert (found.rule, found.ask.announce) == ("default-asks", 0)  # type: ignore[union-attr]


def test_a_plain_ask_is_stricter_than_an_announcement() -> None:
    text = P("a", "ask", RM, decide="announce: 30s") + P("b", "ask", "{effects: write}")
    found = verdict(text, DELETE, WRITE)
    assert (found.rule, found.ask.announce) == ("b", 0)  # type: ignore[union-attr]


def test_two_rules_that_ask_become_one_question_that_satisfies_both() -> None:
    text = P("a", "ask", RM, decide="approvers: {from: [oncall, leads], count: 1}, timeout: 5m")
    text += P(
        "b", "ask", RM, decide="approvers: {from: [leads], count: 2, not: [ann]}, timeout: 1h"
    )
    found = verdict(text, DELETE)
    assert found.ask is not None
    assert (found.rule, found.also) == ("b", ("a",))
    assert (found.ask.approvers, found.ask.count, found.ask.timeout) == (("leads",), 2, 300)
    assert set(found.ask.excluded) == {"requester", "ann"}


def test_an_audit_rule_is_recorded() -> None:
    found = verdict(P("a", "deny", RM, mode="audit"), DELETE)
    assert [(each.rule, each.effect) for each in found.audited] == [("a", "deny")]


def test_a_verdict_says_which_piece_it_is_about() -> None:
    bad = step("delete", program="rm", node="rm -rf y", why=("delete: removes a tree",))
    found = verdict("", READ, bad, WRITE)
    assert (found.node, found.why, found.effects) == (
        "rm -rf y", "delete: removes a tree", ("delete", "read", "write"),
    )  # fmt: skip
    assert found.reason == "delete: removes a tree"


def limited(effect: str) -> str:
    return P("a", effect, RM, decide="rate_limit: {key: service, max: 2, per: 1h}")


@pytest.mark.parametrize(
    ("effect", "past"), [("allow", "ask"), ("ask", "deny"), ("dry-run", "ask")]
)
def test_past_its_rate_a_rule_gets_stricter(effect: str, past: str) -> None:
    now = [1000.0]
    rates, rules = RateCounter(lambda: now[0]), book(limited(effect))
    one = deed(step("delete", program="rm", target={"service": "shop"}))
    other = deed(step("delete", program="rm", target={"service": "mail"}))

    def does(what: ActionEffects) -> str:
        found = evaluate(rules, what, now=NOON, rates=rates)
        record_rates(rules, what, now=NOON, rates=rates)
        return found.verdict

    assert [does(one), does(one), does(one)] == [effect, effect, past]
    assert does(other) == effect
    now[0] += 3601
    assert does(one) == effect


def test_the_wall_clock_has_no_say_in_a_rate() -> None:
    rates, rules = RateCounter(lambda: 5.0), book(limited("allow"))
    one = deed(DELETE)
    for _ in range(2):
        rates.record("a", "", max_kept=2)
    later = NOON + timedelta(days=400)
    assert evaluate(rules, one, now=later, rates=rates).verdict == "ask"


def test_what_nearly_matched_says_which_field_was_missing() -> None:
    text = P("a", "deny", "{program: rm, paths: {under: [/etc]}}") + P(
        "b", "ask", "{tool: x, flags: y}"
    )
    (near,) = near_misses(book(text), deed(step("delete", program="rm", paths=("/srv/x",))), NOON)
    assert (near.rule, near.effect, near.missed) == ("a", "deny", ("paths",))
