"""What tests of the policy share: documents from text, actions from a few words, a real policy."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

from hermes.core.actions import Action
from hermes.core.messages import Risk, ToolCall
from hermes.policy.actions.action_effects import (
    ActionEffects,
    ActionLocation,
    ActionStep,
    fingerprint,
)
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.command_analysis import analyse_command
from hermes.policy.commands.effects import CommandTarget
from hermes.policy.decide import DocumentPolicy
from hermes.policy.loading import compile_rule_set, load_set, protected_paths
from hermes.policy.rules.documents import LoadedDocuments, load_text
from hermes.policy.rules.evaluation import RateCounter, RuleSet
from hermes.policy.settings import PolicySettings

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)  # a Monday
HOME, WORK = "/home/me", "/srv/app"
OWN = protected_paths(Path(HOME) / ".hermes", Path(WORK))


def load(text: str) -> LoadedDocuments:
    return load_text(dedent(text), "policies/test.yaml")


@cache
def book(text: str = "", *, set: str = "") -> RuleSet:
    """The rules of a set and of a text, which must be without mistakes; thousands of tests use
    the same ones."""
    found = load(text) + (load_set(set) if set else LoadedDocuments())
    assert not found.problems, [str(problem) for problem in found.problems]
    return compile_rule_set(found.documents, PolicySettings(), HOME)


def policy_text(name: str, effect: str, clause: str, **more: str) -> str:
    """A small ActionPolicy on few lines."""
    exclude = f"\n  exclude: {{any: [{more['exclude']}]}}" if "exclude" in more else ""
    decide = f", {more['decide']}" if "decide" in more else ""
    return (
        f"apiVersion: hermes/v1\nkind: ActionPolicy\nmetadata: {{name: {name}}}\nspec:\n"
        f"  mode: {more.get('mode', 'enforce')}\n"
        f"  match: {{any: [{clause}]}}{exclude}\n"
        f"  decide: {{effect: {effect}{decide}}}\n---\n"
    )


def exception_text(name: str, policies: str, clause: str, expires: str = "2026-12-31") -> str:
    return (
        f"apiVersion: hermes/v1\nkind: PolicyException\nmetadata: {{name: {name}}}\nspec:\n"
        f"  owner: ann\n  reason: a migration\n  expires: {expires}\n  policies: {policies}\n"
        f"  match: {{any: [{clause}]}}\n---\n"
    )


def step(effects: str, **more: Any) -> ActionStep:
    more.setdefault("node", more.get("program", "something"))
    if "target" in more:
        more["target"] = CommandTarget(**more["target"])
    return ActionStep(effects=frozenset(effects.split()), **more)


def deed(*steps: ActionStep, **more: Any) -> ActionEffects:
    more.setdefault("where", ActionLocation(place="local", host="here"))
    text = fingerprint([(s.node, sorted(s.effects)) for s in steps])
    return ActionEffects(
        **{"tool": "terminal", "steps": steps, "hash": text, "workspace": WORK, **more}
    )


def call(tool: str, risk: Risk = Risk.CHANGE, **arguments: Any) -> Action:
    return placed(tool, risk, arguments)


def placed(
    tool: str,
    risk: Risk,
    arguments: dict[str, Any],
    *,
    run: str = "run-1",
    isolated: bool = False,
) -> Action:
    return Action(
        call=ToolCall("call-1", tool, arguments),
        risk=risk,
        run=run,
        origin="cli",
        environment="sandbox" if isolated else "local",
        target="here",
        isolated=isolated,
    )


def gate(
    text: str = "",
    *,
    set: str = "careful",
    clock: Callable[[], datetime] = lambda: NOON,
    rates: RateCounter | None = None,
    **situation: Any,
) -> DocumentPolicy:
    """A whole gate over real documents and the real reader of commands."""
    there = ActionContext(**{"cwd": WORK, "home": HOME, **situation})
    return DocumentPolicy(
        book(text, set=set),
        ActionReader(analyse_command, own_paths=OWN),
        context_of=lambda action: there,
        clock=clock,
        rates=rates,
    )
