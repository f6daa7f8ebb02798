"""`hermes policy list`, `show` and `always`: the rules in force."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from hermes.app.policy import always_rules_path, effective_policy_settings, home_path
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_fields, print_json, print_table
from hermes.cli.policy.context import (
    POLICY_SET_NAMES,
    documents_in_force,
    short_source,
    working_folder,
)
from hermes.cli.render.terminal_text import clean
from hermes.core.errors import HermesError
from hermes.plumbing.problems import suggest_name
from hermes.policy.approvals.always_allowed import (
    list_allowlisted_commands,
    list_always,
    revoke_always,
)
from hermes.policy.loading import compile_rule_set
from hermes.policy.rules.documents import LocatedDocument
from hermes.policy.rules.evaluation import (
    ALWAYS_DENIED_RULE,
    DEFAULT_ASK_RULE,
    DEFAULT_READ_RULE,
    TAINTED_RULE,
    RuleSet,
)
from hermes.policy.rules.rule import PolicyRule, RuleException
from hermes.policy.rules.schema import PolicyTest

RuleRow = dict[str, object]
BUILT_IN_LIMITS: dict[str, tuple[str, str]] = {
    ALWAYS_DENIED_RULE: (
        "deny",
        "Wiping disks, fork bombs, changing the policy, settings and audit log of Hermes",
    ),
    TAINTED_RULE: ("ask", "A change that contains text from a log, a file or a web page"),
    DEFAULT_READ_RULE: ("allow", "Read-only actions that no rule matches"),
    DEFAULT_ASK_RULE: ("ask", "Everything else that no rule matches"),
}
"""Rules that apply without any policy file."""


@cli_command("hermes policy list --set sandboxed --json")
@click.option(
    "--set", "set_name", type=click.Choice(POLICY_SET_NAMES), default=None, help="Built-in set."
)
@click.option("--isolated", is_flag=True, help="As in an isolated environment.")
def list_(ctx: click.Context, set_name: str | None, isolated: bool, as_json: bool) -> None:
    """List all rules in force: effect, mode, and the file and line."""
    loaded = load_settings(ctx, {"policy.set": set_name} if set_name else None)
    settings = effective_policy_settings(loaded, isolated=isolated)
    found = documents_in_force(loaded, working_folder(""), isolated=isolated)
    rule_set = compile_rule_set(found.documents, settings, home_path(loaded))
    rows = list(_rule_rows(rule_set, {each.source: each for each in found.documents}))
    if as_json:
        print_json({"set": settings.set, "rules": rows})
        return
    print_table(
        ("rule", "effect", "mode", "from", "for"),
        [
            (r["rule"], r["effect"], r["mode"], short_source(str(r["source"])), r["about"])
            for r in rows
        ],
    )
    for problem in found.problems:
        note(str(problem))


def _rule_rows(rule_set: RuleSet, located: dict[str, LocatedDocument]) -> Iterator[RuleRow]:
    for name, (effect, about) in BUILT_IN_LIMITS.items():
        yield _rule_row(name, effect, "always", "built in", about)
    for rule in (*rule_set.rules, *rule_set.audit_rules):
        mode = "audit" if rule.audit else "enforce"
        yield _rule_row(
            rule.name, _effect_text(rule), mode, rule.source, _rule_description(located, rule)
        )
    for exception in rule_set.exceptions:
        gone = exception.expires <= datetime.now(UTC)
        mode = "expired" if gone else f"until {exception.expires:%Y-%m-%d}"
        about = _rule_description(located, exception) or exception.reason
        yield _rule_row(
            exception.name, f"lifts {', '.join(exception.names)}", mode, exception.source, about
        )


def _rule_row(name: str, effect: str, mode: str, source: str, about: str) -> RuleRow:
    return {"rule": name, "effect": effect, "mode": mode, "source": source, "about": about}


def _effect_text(rule: PolicyRule) -> str:
    return f"ask ({rule.ask.announce:g} s)" if rule.ask and rule.ask.announce else rule.effect


def _rule_description(located: dict[str, LocatedDocument], one: PolicyRule | RuleException) -> str:
    return located[one.source].document.metadata.description if one.source in located else ""


@cli_command("hermes policy show destructive")
@click.argument("name")
@click.option(
    "--set", "set_name", type=click.Choice(POLICY_SET_NAMES), default=None, help="Built-in set."
)
def show(ctx: click.Context, name: str, set_name: str | None, as_json: bool) -> None:
    """Show the rule, exception or test NAME as it is written, and where."""
    loaded = load_settings(ctx, {"policy.set": set_name} if set_name else None)
    found = documents_in_force(loaded, working_folder(""))
    named = [each for each in found.documents if each.document.metadata.name == name]
    if not named and name in BUILT_IN_LIMITS:
        effect, about = BUILT_IN_LIMITS[name]
        row: RuleRow = {"name": name, "effect": effect, "about": about, "source": "built in"}
        _print_rule(row, as_json=as_json)
        return
    if not named:
        known = [*BUILT_IN_LIMITS, *(each.document.metadata.name for each in found.documents)]
        raise HermesError(f"there is no rule {name!r}; {suggest_name(name, known)}")
    if as_json:
        print_json([_document_data(each) for each in named])
        return
    for each in named:
        echo(f"# {short_source(each.source)}", dim=True)
        echo(clean(_source_text(each)))


def _print_rule(row: RuleRow, *, as_json: bool) -> None:
    if as_json:
        print_json([row])
    else:
        print_fields(row)


def _document_data(located: LocatedDocument) -> dict[str, Any]:
    document = msgspec.to_builtins(located.document)
    if isinstance(located.document, PolicyTest):
        document["spec"]["cases"] = len(located.document.spec.cases)
    return {"source": located.source, **document}


def _source_text(located: LocatedDocument) -> str:
    """The text of the document; converted documents have no file and are shown as JSON."""
    file = Path(located.file)
    if not file.is_file():
        return msgspec.json.format(msgspec.json.encode(located.document), indent=2).decode()
    lines = file.read_text("utf-8").splitlines()[located.line - 1 :]
    ends = (at for at, line in enumerate(lines) if line.startswith(("---", "...")))
    return "\n".join(lines[: next(ends, len(lines))]).rstrip()


@cli_command("hermes policy always --revoke always-b9a202047b1ec6e2")
@click.option("--revoke", "name", metavar="NAME", help="Revoke one.")
def always(ctx: click.Context, name: str | None, as_json: bool) -> None:
    """List what is permanently allowed (the answer "always", command_allowlist), or revoke one."""
    loaded = load_settings(ctx)
    file = always_rules_path(loaded)
    if name:
        if not revoke_always(file, name):
            raise HermesError(f"there is no {name!r} in {file}; `hermes policy always` lists them")
        echo(f"{name} is revoked")
        return
    allowed = [
        *list_always(file),
        *list_allowlisted_commands(loaded.settings.policy.command_allowlist),
    ]
    if as_json:
        print_json(allowed)
        return
    print_table(
        ("name", "until", "by", "action"),
        [(one.name, f"{one.expires:%Y-%m-%d}", one.owner, one.shown) for one in allowed],
        empty="nothing is permanently allowed",
    )
