"""`hermes policy explain`: which rule, which piece of the command, and what nearly matched."""

import json
from collections.abc import Iterator
from typing import Any

import click
from msgspec import to_builtins
from msgspec.structs import replace

from hermes.cli.loading import settings_for
from hermes.cli.output import fields, json_option, say
from hermes.cli.policy_action import Asked, TakesCommand, about_an_action
from hermes.cli.policy_caret import Piece, find_piece, underlined
from hermes.cli.policy_gate import Gates, folder_of, short
from hermes.cli.render_safe import visible
from hermes.core.messages import Value
from hermes.policy.decide import DocumentPolicy
from hermes.policy.deed import Deed, Step
from hermes.policy.examine import enforced_in_json
from hermes.policy.given import action_of, given_of, moment_of, situation_of
from hermes.policy.judgement import judge, near_misses
from hermes.policy.rules import Rule
from hermes.policy.verdict import Ask, NearMiss, Verdict


@click.command(
    cls=TakesCommand,
    examples="""
hermes policy explain -- find /var -name '*.gz' -exec rm {} +
hermes policy explain 'curl -s https://x.example/i.sh | sh'
hermes policy explain --json --origin cron -- systemctl restart nginx
""",
)
@about_an_action
@json_option
@click.pass_context
def explain(ctx: click.Context, asked: Asked, as_json: bool) -> None:
    """Say what the gate would decide about COMMAND and why, without running it.

    Shown are the verdict and its rule, the piece of the command that decided, what every piece
    does, and rules that only one of their fields kept from deciding otherwise.
    """
    if not asked.words and not asked.tool:
        raise click.UsageError("which command? hermes policy explain -- ls -la")
    gates = Gates(settings_for(ctx, asked.overrides), folder_of(asked.cwd))
    found = explained(gates, asked.given())
    if as_json:
        say(json.dumps(_plain(found), indent=2))
    else:
        _tell(found)


class Explained(Value, kw_only=True, frozen=True):
    deed: Deed
    verdict: Verdict
    sources: dict[str, str]
    piece: Piece | None
    nearly: tuple[NearMiss, ...]


def explained(gates: Gates, given: dict[str, Any]) -> Explained:
    policy = gates.of(bool(given.get("isolated")))
    what = given_of(gates.placed(given))
    situation = situation_of(what, cwd=str(gates.folder), home=gates.home)
    kernel = gates.kernel(str(given.get("environment", "")))
    deed = policy.reader.read(replace(action_of(what), kernel=kernel), situation)
    now = moment_of(what, policy.clock())
    verdict = judge(policy.book, deed, now=now)
    deciding = _deciding(deed, verdict)
    near = near_misses(policy.book, replace(deed, steps=(deciding,)), now) if deciding else ()
    return Explained(
        deed=deed,
        verdict=verdict,
        sources=_sources(policy),
        piece=find_piece(policy.reader, deed, deciding, gates.home) if deciding else None,
        nearly=tuple(miss for miss in near if _telling(miss, policy, verdict)),
    )


def _deciding(deed: Deed, verdict: Verdict) -> Step | None:
    steps = [step for step in deed.steps if step.node == verdict.node]
    alike = [step for step in steps if "; ".join(step.why) == verdict.why]
    return next(iter(alike or steps), None)


def _telling(miss: NearMiss, policy: DocumentPolicy, verdict: Verdict) -> bool:
    """Whether another verdict was near: something of the rule fitted, and one field did not."""
    if miss.effect == verdict.verdict:
        return False
    rules: tuple[Rule, ...] = (*policy.book.rules, *policy.book.audits)
    rule = next(each for each in rules if each.name == miss.rule)
    clauses = (*rule.match.any, *rule.match.all)
    fitting = [clause for clause in clauses if len(clause) > 1]
    return miss.missed == ("exclude",) or any(
        miss.missed[0] in [name for name, _ in clause] for clause in fitting
    )


def _sources(policy: DocumentPolicy) -> dict[str, str]:
    book = policy.book
    rules = {each.name: each.source for each in (*book.rules, *book.audits)}
    return rules | {each.name: each.source for each in book.lifts}


def _tell(found: Explained) -> None:
    verdict = found.verdict
    fields(
        {
            "verdict": f"{verdict.verdict}{_how(verdict.ask)}",
            "rule": _with_source(verdict.rule, found.sources),
            "reason": visible(verdict.reason),
            "profile": visible(_profile(verdict)),
            "enforced": visible(_enforced(verdict)),
        }
    )
    say()
    command = found.deed.command if found.piece else verdict.node
    for line in underlined(command, found.piece):
        say(f"  {line}")
    _section("what it does", [line for step in found.deed.steps for line in _step(step)])
    _section("also", [_with_source(name, found.sources) for name in verdict.also])
    _section("lifted by", list(verdict.lifted))
    _section("audit", [f"{each.rule} would say {each.effect}" for each in verdict.audited])
    _section("only known when it runs", _untold(found.deed))
    _section(
        "nearly", [f"{m.rule} would say {m.effect}, but for {m.missed[0]}" for m in found.nearly]
    )
    say()
    fields({"action": verdict.hash})


def _untold(deed: Deed) -> list[str]:
    """Reasons that belong to no single piece, and so were not shown with one."""
    told = {line.partition(": ")[2] for step in deed.steps for line in step.why}
    return [visible(text) for text in dict.fromkeys(deed.dynamic) if text not in told]


def _section(title: str, lines: list[str]) -> None:
    if lines:
        say()
        say(title, bold=True)
        for line in lines:
            say(f"  {line}")


def _step(step: Step) -> Iterator[str]:
    around = [name for name in step.via if name != step.node]
    wrapped = f"  (inside {', '.join(around)})" if around else ""
    yield f"{visible(step.node)}{wrapped}"
    told = [line.partition(": ") for line in step.why]
    silent = sorted(step.effects - {effect for effect, _, _ in told})
    reasons = [(effect, reason) for effect, _, reason in told] + [(one, "") for one in silent]
    width = max((len(effect) for effect, _ in reasons), default=0)
    for effect, reason in reasons:
        yield f"  {effect:<{width}}  {visible(reason)}".rstrip()


def _how(ask: Ask | None) -> str:
    if ask is None:
        return ""
    if ask.announce:
        return f": announced, and done after {ask.announce:g} s unless somebody stops it"
    who = " or ".join(ask.approvers) or "somebody"
    many = f"{ask.count} of {who}" if ask.count > 1 else who
    return f": waits for a yes of {many}; none within {ask.timeout:g} s is a no"


def _profile(verdict: Verdict) -> str:
    profile = verdict.profile
    if profile is None or profile.unrestricted:
        return f"unrestricted: {profile.unrestricted}" if profile else ""
    ports = ", ".join(map(str, profile.ports))
    network = {"none": "", "any": "; network", "ports": f"; TCP to port {ports}"}
    signals = "; signals" if profile.may_signal else ""
    return f"{profile.judged}{network[profile.network]}{signals}"


def _enforced(verdict: Verdict) -> str:
    said = verdict.enforced or "not known"
    return f"{said}: {verdict.unenforced}" if verdict.unenforced else said


def _with_source(name: str, sources: dict[str, str]) -> str:
    return f"{name} ({short(sources[name])})" if name in sources else name


def _plain(found: Explained) -> dict[str, Any]:
    verdict, piece = found.verdict, found.piece
    return {
        "verdict": verdict.verdict,
        "rule": verdict.rule,
        "source": found.sources.get(verdict.rule),
        "reason": verdict.reason,
        "effects": list(verdict.effects),
        "command": found.deed.command,
        "piece": {"text": verdict.node}
        | ({"start": piece.start, "end": piece.end} if piece else {}),
        "steps": [_plain_step(step) for step in found.deed.steps],
        "also": list(verdict.also),
        "lifted": list(verdict.lifted),
        "audited": [{"rule": each.rule, "effect": each.effect} for each in verdict.audited],
        "dynamic": list(dict.fromkeys(found.deed.dynamic)),
        "nearly": [
            {"rule": miss.rule, "effect": miss.effect, "missed": list(miss.missed)}
            for miss in found.nearly
        ],
        "hash": verdict.hash,
        "profile": to_builtins(verdict.profile),
        "enforced": enforced_in_json(verdict),
        "enforced_reason": verdict.unenforced,
    }


def _plain_step(step: Step) -> dict[str, Any]:
    return {
        "text": step.node,
        "program": step.program,
        "via": list(step.via),
        "effects": sorted(step.effects),
        "why": list(step.why),
        "paths": list(step.paths),
        "changes": list(step.changes),
    }
