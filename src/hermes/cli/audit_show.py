"""`hermes audit show` and `export`: the log to read, and the log to hand over."""

from datetime import datetime
from pathlib import Path

import click

from hermes.cli.events_out import write_events
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, table
from hermes.cli.render_safe import clip, visible
from hermes.cli.stored import ask_journal, existing_journal, find_run
from hermes.cli.when import SINCE
from hermes.core.protocols import Recorded
from hermes.memory.opening import Store, exists
from hermes.policy.audit_story import KINDS, Asked, Deed, tell

VERDICTS = ("allow", "ask", "deny", "dry-run")


@click.command(
    cls=Examples,
    examples="""
hermes audit show --since 7d
hermes audit show --run latest --verdict ask
hermes audit show --rule 'destructive*' --json
""",
)
@SINCE
@click.option("--run", help="Only one run and its subagents: an id, a title, or latest.")
@click.option("--rule", default="*", help="Only what this rule decided; may hold * and ?.")
@click.option("--verdict", type=click.Choice(VERDICTS), help="Only this verdict.")
@json_option
@click.pass_context
def show(
    ctx: click.Context,
    since: datetime | None,
    run: str | None,
    rule: str,
    verdict: str | None,
    as_json: bool,
) -> None:
    """List decisions, approvals and executions: who, what, which rule, what came of it."""
    loaded = settings_for(ctx)

    async def ask(journal: Store) -> tuple[str, list[Recorded]]:
        wanted = (await find_run(journal, run)).id if run else ""
        return wanted, [one async for one in journal.read(kinds=KINDS)]

    wanted, records = ask_journal(loaded, ask) if exists(loaded.store) else ("", [])
    asked = Asked(since=since, run=wanted, rule=rule, verdict=verdict or "")
    deeds = [deed for deed in tell(records) if asked.fits(deed)]
    if as_json:
        emit_json(
            [{name: getattr(deed, name) for name in deed.__struct_fields__} for deed in deeds]
        )
        return
    table(
        ("event", "at", "run", "who", "action", "verdict", "rule", "people", "result"),
        [_row(deed) for deed in deeds],
        empty="nothing was decided yet" if not records else "nothing fits",
    )


def _row(deed: Deed) -> tuple[object, ...]:
    action = clip(visible(f"{deed.tool}: {deed.what}"), 60)
    result = deed.result or ("running, or cut off" if deed.started else "not run")
    when = deed.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    who = deed.origin or "?"
    people = "; ".join(deed.people)
    return deed.seq, when, deed.run, who, action, deed.verdict, deed.rule, people, result


@click.command(
    cls=Examples,
    examples="""
hermes audit export -o audit.jsonl
hermes audit verify --export audit.jsonl
""",
)
@click.option("--full", is_flag=True, help="Also what was said; else of that only the hashes.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A new file; else stdout.")
@click.pass_context
def export(ctx: click.Context, full: bool, output: Path | None) -> None:
    """Write the log as lines of JSON with digests: `verify --export` proves it again, anywhere.

    Conversations stay at home: of an event that is not about decisions only its hash is written.
    Secrets that an older version kept are taken out, and the hash of the original stands beside.
    """
    from hermes.app.veil import Veil
    from hermes.memory.opening import export_proven

    loaded = settings_for(ctx)
    lines = export_proven(
        existing_journal(loaded), None if full else KINDS, clean=Veil(loaded).recorded
    )
    write_events(lines, output, anew=True)
    if output is not None:
        note("hand over audit.pub and audit.head with it: they are what it is verified with")
