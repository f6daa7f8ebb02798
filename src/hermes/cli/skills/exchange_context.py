"""Opens the skill exchange, applies revocations, and prints import examinations."""

from typing import Any

import click

from hermes.app.people import user_name
from hermes.app.skills.exchange import (
    UNAFFECTED_STATES,
    DemotedSkill,
    SkillExchange,
    demote_revoked_skills,
)
from hermes.app.skills.library import SKILLS_RUN
from hermes.cli.context import load_settings
from hermes.cli.output import echo, note, print_table
from hermes.cli.render.terminal_text import clean
from hermes.cli.skills.context import with_journal
from hermes.core.bus import Bus
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings
from hermes.skills.exchange.importer import ImportExamination
from hermes.skills.exchange.signed_statements import shorten_key


def open_exchange(ctx: click.Context) -> SkillExchange:
    return SkillExchange(load_settings(ctx))


def apply_revocations(loaded: LoadedSettings, exchange: SkillExchange) -> list[DemotedSkill]:
    """Print the warnings of the exchange and demote revoked skills."""
    for warning in exchange.warnings:
        note(clean(warning))
    if not exchange.keyring.state.find_revoked_skills():
        return []

    async def work(journal: JournalStore) -> list[DemotedSkill]:
        publish = Bus(journal).publish
        return await demote_revoked_skills(
            exchange, loaded, journal, publish, run=SKILLS_RUN, by=user_name()
        )

    demoted = with_journal(loaded, work)
    for each in demoted:
        change = "stays" if each.before in UNAFFECTED_STATES else f"was {each.before} and is"
        state = each.before if each.before in UNAFFECTED_STATES else "draft"
        note(clean(f"{each.skill} {change} a {state}: {each.why}"))
    return demoted


def print_examination(examined: ImportExamination) -> None:
    manifest = examined.bundle.manifest
    new = ", new here" if examined.new_publisher else ""
    version, until = f" version {manifest.version}", f", until {manifest.expires:%Y-%m-%d}"
    key = f"key {shorten_key(examined.bundle.key)}"
    if not examined.bundle.key:  # of a repository
        version, until, key = "", "", "not signed"
    echo(
        clean(
            f"{manifest.name}{version} of {manifest.publisher} ({key}{new}), "
            f"digest {manifest.digest[:12]}{until}"
        )
    )
    rows = [
        (
            number,
            "stopped" if each.blocks else "note",
            each.kind,
            f"{each.file}:{each.line}",
            each.cause,
        )
        for number, each in enumerate(examined.findings, 1)
    ]
    if rows:
        print_table(("#", "", "kind", "where", "what"), rows)
    if examined.verdict == "look":
        note("none of this blocks the import; check it before you use the draft")
    difference = examined.difference
    for word, values in (("can now", difference.gained), ("no longer", difference.lost)):
        if values:
            echo(clean(f"{word}: {', '.join(values[:40])}"))
    if difference.undeclared:
        note(f"not declared by its publisher: {', '.join(difference.undeclared[:20])}")
    proven = examined.proven
    echo(clean(f"evidence: {proven.outcome}. {proven.detail}".rstrip(". ")))
    if proven.harm:
        note(clean(f"it did damage in the replay: {'; '.join(proven.harm)}"))
    elif proven.outcome == "failed":
        note("the claims of its publisher were not confirmed here: it stays a draft")


def examination_data(examined: ImportExamination) -> dict[str, Any]:
    manifest = examined.bundle.manifest
    return {
        "name": manifest.name,
        "version": manifest.version,
        "publisher": manifest.publisher,
        "key": examined.bundle.key,
        "new_publisher": examined.new_publisher,
        "digest": manifest.digest,
        "expires": manifest.expires,
        "blocked": examined.blocked,
        "ruling": examined.verdict,
        "findings": examined.findings,
        "gained": examined.difference.gained,
        "lost": examined.difference.lost,
        "undeclared": examined.difference.undeclared,
        "evidence": examined.proven,
        "tried_in_sandbox": examined.tried,
    }
