"""`hermes policy list`, `show` and `always`: the rules in force."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from hermes.app.gate import effective
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, fields, json_option, note, say, table
from hermes.cli.policy_action import SETS
from hermes.cli.policy_gate import folder_of, home_of, in_force, own_folder, short
from hermes.cli.render_safe import clean
from hermes.core.errors import HermesError
from hermes.policy.allowlist import NAME, list_always, list_commands, revoke
from hermes.policy.documents import Placed
from hermes.policy.judgement import ASKS, FLOORED, READS, TAINTED, RuleBook
from hermes.policy.opening import compile_book
from hermes.policy.rules import Lift, Rule
from hermes.policy.schema import PolicyTest
from hermes.policy.shape import suggest

Row = dict[str, object]
OWN: dict[str, tuple[str, str]] = {
    FLOORED: ("deny", "Wiping disks, fork bombs, changing our own policy, settings and audit log"),
    TAINTED: ("ask", "A change whose words come from a log, a file or a web page"),
    READS: ("allow", "What only looks, where no rule says otherwise"),
    ASKS: ("ask", "Everything else that no rule is about"),
}
"""What holds without any file."""


@click.command("list", cls=Examples, examples="hermes policy list --set sandboxed --json")
@click.option("--set", "set_name", type=click.Choice(SETS), default=None, help="Built-in set.")
@click.option("--isolated", is_flag=True, help="As for a place that cannot hurt the host.")
@json_option
@click.pass_context
def list_(ctx: click.Context, set_name: str | None, isolated: bool, as_json: bool) -> None:
    """List all rules in force: effect, mode, and the file and line they stand in."""
    loaded = settings_for(ctx, {"policy.set": set_name} if set_name else None)
    settings = effective(loaded, isolated=isolated)
    found = in_force(loaded, folder_of(""), isolated=isolated)
    book = compile_book(found.documents, settings, home_of(loaded))
    rows = list(_rows(book, {each.source: each for each in found.documents}))
    if as_json:
        emit_json({"set": settings.set, "rules": rows})
        return
    table(
        ("rule", "effect", "mode", "from", "for"),
        [(r["rule"], r["effect"], r["mode"], short(str(r["source"])), r["about"]) for r in rows],
    )
    for problem in found.problems:
        note(str(problem))


def _rows(book: RuleBook, placed: dict[str, Placed]) -> Iterator[Row]:
    for name, (effect, about) in OWN.items():
        yield _row(name, effect, "always", "built in", about)
    for rule in (*book.rules, *book.audits):
        mode = "audit" if rule.audit else "enforce"
        yield _row(rule.name, _effect(rule), mode, rule.source, _about(placed, rule))
    for lift in book.lifts:
        gone = lift.expires <= datetime.now(UTC)
        mode = "expired" if gone else f"until {lift.expires:%Y-%m-%d}"
        about = _about(placed, lift) or lift.reason
        yield _row(lift.name, f"lifts {', '.join(lift.names)}", mode, lift.source, about)


def _row(name: str, effect: str, mode: str, source: str, about: str) -> Row:
    return {"rule": name, "effect": effect, "mode": mode, "source": source, "about": about}


def _effect(rule: Rule) -> str:
    return f"ask ({rule.ask.announce:g} s)" if rule.ask and rule.ask.announce else rule.effect


def _about(placed: dict[str, Placed], one: Rule | Lift) -> str:
    return placed[one.source].document.metadata.description if one.source in placed else ""


@click.command(cls=Examples, examples="hermes policy show destructive")
@click.argument("name")
@click.option("--set", "set_name", type=click.Choice(SETS), default=None, help="Built-in set.")
@json_option
@click.pass_context
def show(ctx: click.Context, name: str, set_name: str | None, as_json: bool) -> None:
    """Show the rule, exception or test NAME as it is written, and where."""
    loaded = settings_for(ctx, {"policy.set": set_name} if set_name else None)
    found = in_force(loaded, folder_of(""))
    named = [each for each in found.documents if each.document.metadata.name == name]
    if not named and name in OWN:
        effect, about = OWN[name]
        row: Row = {"name": name, "effect": effect, "about": about, "source": "built in"}
        _say_row(row, as_json=as_json)
        return
    if not named:
        known = [*OWN, *(each.document.metadata.name for each in found.documents)]
        raise HermesError(f"there is no rule {name!r}; {suggest(name, known)}")
    if as_json:
        emit_json([_plain(each) for each in named])
        return
    for each in named:
        say(f"# {short(each.source)}", dim=True)
        say(clean(_as_written(each)))


def _say_row(row: Row, *, as_json: bool) -> None:
    if as_json:
        emit_json([row])
    else:
        fields(row)


def _plain(placed: Placed) -> dict[str, Any]:
    document = msgspec.to_builtins(placed.document)
    if isinstance(placed.document, PolicyTest):
        document["spec"]["cases"] = len(placed.document.spec.cases)
    return {"source": placed.source, **document}


def _as_written(placed: Placed) -> str:
    """From its first line to the end of the document; translated ones have no text of their own."""
    file = Path(placed.file)
    if not file.is_file():
        return msgspec.json.format(msgspec.json.encode(placed.document), indent=2).decode()
    lines = file.read_text("utf-8").splitlines()[placed.line - 1 :]
    ends = (at for at, line in enumerate(lines) if line.startswith(("---", "...")))
    return "\n".join(lines[: next(ends, len(lines))]).rstrip()


@click.command(cls=Examples, examples="hermes policy always --revoke always-b9a202047b1ec6e2")
@click.option("--revoke", "name", metavar="NAME", help="Take one back.")
@json_option
@click.pass_context
def always(ctx: click.Context, name: str | None, as_json: bool) -> None:
    """List what was allowed for good (an answer "always", command_allowlist), or take one back."""
    loaded = settings_for(ctx)
    file = own_folder(loaded) / NAME
    if name:
        if not revoke(file, name):
            raise HermesError(f"there is no {name!r} in {file}; `hermes policy always` lists them")
        say(f"{name} is asked about again")
        return
    allowed = [*list_always(file), *list_commands(loaded.settings.policy.command_allowlist)]
    if as_json:
        emit_json(allowed)
        return
    table(
        ("name", "until", "by", "action"),
        [(one.name, f"{one.expires:%Y-%m-%d}", one.owner, one.shown) for one in allowed],
        empty="nothing was allowed for good",
    )
