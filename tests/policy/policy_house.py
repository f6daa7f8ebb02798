"""What the tests of the gate share: documents from text, deeds from a few words, a real gate."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from typing import Any

from hermes.core.actions import Action
from hermes.core.messages import Risk, ToolCall
from hermes.policy.action import Reader, Situation
from hermes.policy.commands import analyse
from hermes.policy.commands.values import Target
from hermes.policy.decide import DocumentPolicy
from hermes.policy.deed import Deed, Step, Whereabouts, fingerprint
from hermes.policy.documents import Loaded, load_text
from hermes.policy.judgement import RuleBook
from hermes.policy.opening import compile_book, load_set, own_paths
from hermes.policy.rates import Rates
from hermes.policy.settings import PolicySettings

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)  # a Monday
HOME, WORK = "/home/me", "/srv/app"
OWN = own_paths(Path(HOME) / ".hermes", Path(WORK))


def load(text: str) -> Loaded:
    return load_text(dedent(text), "policies/test.yaml")


def book(text: str = "", *, set: str = "") -> RuleBook:
    """The rules of a set and of a text, which must be without mistakes."""
    found = load(text) + (load_set(set) if set else Loaded())
    assert not found.problems, [str(problem) for problem in found.problems]
    return compile_book(found.documents, PolicySettings(), HOME)


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


def step(effects: str, **more: Any) -> Step:
    more.setdefault("node", more.get("program", "something"))
    if "target" in more:
        more["target"] = Target(**more["target"])
    return Step(effects=frozenset(effects.split()), **more)


def deed(*steps: Step, **more: Any) -> Deed:
    more.setdefault("where", Whereabouts(place="local", host="here"))
    text = fingerprint([(s.node, sorted(s.effects)) for s in steps])
    return Deed(**{"tool": "terminal", "steps": steps, "hash": text, "workspace": WORK, **more})


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
    rates: Rates | None = None,
    **situation: Any,
) -> DocumentPolicy:
    """A whole gate over real documents and the real reader of commands."""
    there = Situation(**{"cwd": WORK, "home": HOME, **situation})
    return DocumentPolicy(
        book(text, set=set),
        Reader(analyse, own_paths=OWN),
        situate=lambda action: there,
        clock=clock,
        rates=rates,
    )
