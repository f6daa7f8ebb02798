"""`hermes skills stats`: how often each skill was shown and played, and how it went."""

import statistics
from collections import Counter, defaultdict

import click

from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, table
from hermes.cli.skills_desk import library_for, with_journal
from hermes.core.events.skills import PlaybookEnded, SkillShown
from hermes.core.messages import Value
from hermes.memory.opening import Store, exists

KINDS = ("playbook.ended", "skill.shown")


class Use(Value, kw_only=True, frozen=True):
    skill: str
    state: str = ""
    shown: int = 0
    played: int = 0
    """Without dry runs, and without those whose probes found something else."""
    applied: int = 0
    declined: int = 0
    undone: int = 0
    seconds: float | None = None
    """Median of those that were applied."""


@click.command(cls=Examples, examples="hermes skills stats\nhermes skills stats --json")
@json_option
@click.pass_context
def stats(ctx: click.Context, as_json: bool) -> None:
    """Count from the journal: shown, played, applied, declined, undone."""
    loaded, library = library_for(ctx)
    states = {skill.name: str(skill.state) for skill in library.all.values()}
    found = with_journal(loaded, count) if exists(loaded.store) else []
    found = [
        Use(**{**_fields(use), "state": states.get(use.skill, "gone")})  # type: ignore[arg-type]
        for use in found
    ]
    if as_json:
        emit_json([_fields(use) for use in found])
        return
    rows = [
        (
            use.skill, use.state, use.shown, use.played, use.applied, use.declined, use.undone,
            "–" if use.seconds is None else f"{use.seconds:.2f} s",
        )
        for use in found
    ]  # fmt: skip
    columns = ("skill", "state", "shown", "played", "applied", "declined", "undone", "median")
    table(columns, rows, empty="no skill was used yet")


async def count(journal: Store) -> list[Use]:
    shown: Counter[str] = Counter()
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: dict[str, list[float]] = defaultdict(list)
    async for recorded in journal.read(kinds=KINDS):
        event = recorded.event
        if isinstance(event, SkillShown):
            shown[event.skill] += 1
        elif isinstance(event, PlaybookEnded) and not event.dry:
            outcomes[event.skill][event.outcome] += 1
            if event.outcome == "applied":
                seconds[event.skill].append(event.seconds)
    return [
        Use(
            skill=name,
            shown=shown[name],
            played=outcomes[name].total() - outcomes[name]["declined"] - outcomes[name]["undone"],
            applied=outcomes[name]["applied"],
            declined=outcomes[name]["declined"],
            undone=outcomes[name]["undone"],
            seconds=statistics.median(seconds[name]) if seconds[name] else None,
        )
        for name in sorted({*shown, *outcomes})
    ]


def _fields(use: Use) -> dict[str, object]:
    return {name: getattr(use, name) for name in use.__struct_fields__}
