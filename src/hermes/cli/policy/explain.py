"""`hermes policy explain`: shows the deciding rule and underlines the deciding part."""

import json
from collections.abc import Iterator
from typing import Any

import click
from msgspec import to_builtins
from msgspec.structs import replace

from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_fields
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
    """Character positions in the command; the end is exclusive."""

    start: int
    end: int


def find_span(
    reader: ActionReader, effects: ActionEffects, step: ActionStep, home: str
) -> CaretSpan | None:
    """Find the step by parsing again: the same text may also occur as an argument."""
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
    """The lines of the command with the span, and carets below it."""
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
    before, span, after = (
        escape_invisible(line[:start]),
        escape_invisible(line[start:end]),
        escape_invisible(line[end:]),
    )
    if display_width(before) > _MAX_CARET_COLUMNS // 2:
        before = "…" + before[-_MAX_CARET_COLUMNS // 3 :]
    if display_width(span) > _MAX_CARET_COLUMNS:
        span, after = span[:_MAX_CARET_COLUMNS] + "…", ""
    if display_width(after) > _MAX_CARET_COLUMNS // 3:
        after = after[: _MAX_CARET_COLUMNS // 3] + "…"
    yield before + span + after
    if span:
        yield " " * display_width(before) + "^" * display_width(span)


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@cli_command(
    """
hermes policy explain -- find /var -name '*.gz' -exec rm {} +
hermes policy explain 'curl -s https://x.example/i.sh | sh'
hermes policy explain --json --origin cron -- systemctl restart nginx
""",
    cls=CommandTakingCommand,
)
@action_options
def explain(ctx: click.Context, action: ActionOptions, as_json: bool) -> None:
    """Show the decision of the policy about COMMAND and its reason, without running it.

    It shows the verdict and its rule, the deciding part of the command, the effects of every part,
    and rules with another verdict that matched except for one field.
    """
    if not action.words and not action.tool:
        raise click.UsageError("a command is missing: hermes policy explain -- ls -la")
    folder_policy = FolderPolicy(load_settings(ctx, action.overrides), working_folder(action.cwd))
    found = explain_decision(folder_policy, action.as_request())
    if as_json:
        echo(json.dumps(_explanation_data(found), indent=2))
    else:
        _print_explanation(found)


class PolicyExplanation(Value, kw_only=True, frozen=True):
    effects: ActionEffects
    verdict: PolicyVerdict
    sources: dict[str, str]
    span: CaretSpan | None
    near_misses: tuple[NearMiss, ...]


def explain_decision(folder_policy: FolderPolicy, request: dict[str, Any]) -> PolicyExplanation:
    policy = folder_policy.of(bool(request.get("isolated")))
    description = parse_description(folder_policy.resolve_folder(request))
    context = context_from_description(
        description, cwd=str(folder_policy.folder), home=folder_policy.home
    )
    kernel = folder_policy.kernel(str(request.get("environment", "")))
    effects = policy.reader.read(
        replace(action_from_description(description), kernel=kernel), context
    )
    now = evaluation_time(description, policy.clock())
    verdict = evaluate(policy.rule_set, effects, now=now)
    deciding = _deciding_step(effects, verdict)
    near = (
        near_misses(policy.rule_set, replace(effects, steps=(deciding,)), now) if deciding else ()
    )
    return PolicyExplanation(
        effects=effects,
        verdict=verdict,
        sources=_rule_sources(policy),
        span=find_span(policy.reader, effects, deciding, folder_policy.home) if deciding else None,
        near_misses=tuple(miss for miss in near if _is_relevant_miss(miss, policy, verdict)),
    )


def _deciding_step(effects: ActionEffects, verdict: PolicyVerdict) -> ActionStep | None:
    steps = [step for step in effects.steps if step.node == verdict.node]
    alike = [step for step in steps if "; ".join(step.why) == verdict.why]
    return next(iter(alike or steps), None)


def _is_relevant_miss(miss: NearMiss, policy: DocumentPolicy, verdict: PolicyVerdict) -> bool:
    """Return whether a rule with another verdict matched except for one field."""
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
    rule_set = policy.rule_set
    rules = {each.name: each.source for each in (*rule_set.rules, *rule_set.audit_rules)}
    return rules | {each.name: each.source for each in rule_set.exceptions}


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
    command = explanation.effects.command if explanation.span else verdict.node
    for line in underline_span(command, explanation.span):
        echo(f"  {line}")
    _print_section(
        "what it does", [line for step in explanation.effects.steps for line in _step_lines(step)]
    )
    _print_section("also", [_rule_with_source(name, explanation.sources) for name in verdict.also])
    _print_section("lifted by", list(verdict.lifted))
    _print_section("audit", [f"{each.rule} would say {each.effect}" for each in verdict.audited])
    _print_section("only known when it runs", _unshown_reasons(explanation.effects))
    _print_section(
        "almost matched",
        [
            f"{m.rule} ({m.effect}): its condition {m.missed[0]} does not hold"
            for m in explanation.near_misses
        ],
    )
    echo()
    print_fields({"action": verdict.hash})


def _unshown_reasons(effects: ActionEffects) -> list[str]:
    """Reasons that belong to no single step, and so are not shown with one."""
    explained = {line.partition(": ")[2] for step in effects.steps for line in step.why}
    return [
        escape_invisible(text) for text in dict.fromkeys(effects.dynamic) if text not in explained
    ]


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
    explained = [line.partition(": ") for line in step.why]
    silent = sorted(step.effects - {effect for effect, _, _ in explained})
    reasons = [(effect, reason) for effect, _, reason in explained] + [(one, "") for one in silent]
    width = max((len(effect) for effect, _ in reasons), default=0)
    for effect, reason in reasons:
        yield f"  {effect:<{width}}  {escape_invisible(reason)}".rstrip()


def _ask_text(ask: AskOptions | None) -> str:
    if ask is None:
        return ""
    if ask.announce:
        return f": announced, and run after {ask.announce:g} s unless someone stops it"
    who = " or ".join(ask.approvers) or "someone"
    many = f"{ask.count} of {who}" if ask.count > 1 else who
    return f": waits for the approval of {many}; denied after {ask.timeout:g} s"


def _profile_text(verdict: PolicyVerdict) -> str:
    profile = verdict.profile
    if profile is None or profile.unrestricted:
        return f"unrestricted: {profile.unrestricted}" if profile else ""
    ports = ", ".join(map(str, profile.ports))
    network = {"none": "", "any": "; network", "ports": f"; TCP to port {ports}"}
    signals = "; signals" if profile.may_signal else ""
    secrets = "; no secret files" if profile.refused_reads else ""
    return f"{profile.describe}{network[profile.network]}{signals}{secrets}"


def _enforcement_text(verdict: PolicyVerdict) -> str:
    enforced = verdict.enforced or "not known"
    return f"{enforced}: {verdict.unenforced}" if verdict.unenforced else enforced


def _rule_with_source(name: str, sources: dict[str, str]) -> str:
    return f"{name} ({short_source(sources[name])})" if name in sources else name


def _explanation_data(found: PolicyExplanation) -> dict[str, Any]:
    verdict, span = found.verdict, found.span
    return {
        "verdict": verdict.verdict,
        "rule": verdict.rule,
        "source": found.sources.get(verdict.rule),
        "reason": verdict.reason,
        "effects": list(verdict.effects),
        "command": found.effects.command,
        "piece": {"text": verdict.node} | ({"start": span.start, "end": span.end} if span else {}),
        "steps": [_step_data(step) for step in found.effects.steps],
        "also": list(verdict.also),
        "lifted": list(verdict.lifted),
        "audited": [{"rule": each.rule, "effect": each.effect} for each in verdict.audited],
        "dynamic": list(dict.fromkeys(found.effects.dynamic)),
        "nearly": [
            {"rule": miss.rule, "effect": miss.effect, "missed": list(miss.missed)}
            for miss in found.near_misses
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
