"""`hermes audit`: shows, verifies and exports the record of decisions."""

import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from hermes.cli import exit_codes
from hermes.cli.context import find_run, load_settings, query_journal, require_journal, since_option
from hermes.cli.lazy import cli_command, cli_group
from hermes.cli.output import echo, note, print_fields, print_json, print_table, write_events
from hermes.cli.render.terminal_text import clip, escape_invisible
from hermes.core.errors import HermesError
from hermes.core.protocols import JournalRecord
from hermes.memory.store import JournalStore, store_exists
from hermes.policy.audit.history import (
    AUDIT_EVENT_KINDS,
    AuditedAction,
    AuditFilter,
    fold_audited_actions,
)

if TYPE_CHECKING:
    from hermes.app.journal.audit_verification import AuditProof, AuditReport

AUDIT_COMMANDS = {
    "verify": ("admin.audit:verify", "Find any edit, deletion, reordering or truncation"),
    "show": ("admin.audit:show", "Decisions, approvals and executions"),
    "export": ("admin.audit:export", "Write the log as verifiable JSON lines"),
    "system": ("admin.audit:system", "The last hourly audit of the host"),
    "key": ("admin.audit:key", "The public key, for verification elsewhere"),
}
existing_file = click.Path(path_type=Path, exists=True, dir_okay=False)


@cli_group(
    AUDIT_COMMANDS,
    """
hermes audit verify
hermes audit show --since 7d --verdict ask
hermes audit export -o audit.jsonl && hermes audit verify --export audit.jsonl
hermes audit verify --journal copy.db --key audit.pub --head audit.head
""",
)
def audit() -> None:
    """Show, verify and export what was decided, approved and done."""


@cli_command("""
hermes audit system
hermes audit system --now
""")
@click.option("--now", is_flag=True, help="Look at the host now.")
def system(ctx: click.Context, now: bool, as_json: bool) -> None:
    """Show the last audit: host, services, growth, certificates, backups, drift.

    `hermes watch` makes one every hour and keeps two weeks of them in incidents/audits.
    """
    from hermes.app.schedule.history import run_now
    from hermes.app.schedule.rhythms import audit_lines, read_audits, standalone_jobs
    from hermes.cli.schedule.edit import edit_jobs

    loaded = load_settings(ctx)
    if now:
        edit_jobs(loaded, lambda each: run_now(loaded, each, "audit", standalone_jobs(loaded)))
    if as_json:
        audits = read_audits(loaded)
        print_json(audits[-1] if audits else None)
        return
    lines = audit_lines(loaded)
    if not lines:
        note("no audit yet: `hermes audit system --now` makes one, `hermes watch` one every hour")
    for name, text in lines:
        echo(f"{name:<13}{text}")


@cli_command("hermes audit verify --json")
@click.option("--journal", type=existing_file, help="A copied journal; needs --key.")
@click.option("--export", "exported", type=existing_file, help="A file of `hermes audit export`.")
@click.option(
    "--key",
    "key_file",
    type=existing_file,
    help="The trusted public key; default: the key of this home.",
)
@click.option(
    "--head", type=existing_file, help="The signed head; default: audit.head beside the file."
)
def verify(
    ctx: click.Context,
    journal: Path | None,
    exported: Path | None,
    key_file: Path | None,
    head: Path | None,
    as_json: bool,
) -> int:
    """Check every event against the chain, the signed checkpoints and the head.

    Exit codes: 0 verified, 6 something was changed, removed, moved or truncated, 1 no
    contradiction, but something needed for the proof is missing (a key, a head, a signature).
    """
    from hermes.app.journal.audit_verification import verify_export, verify_journal
    from hermes.memory.store import display_location

    if journal and exported:
        raise click.UsageError("use either --journal or --export")
    if journal and not key_file:
        raise click.UsageError("a copied journal needs --key: the public key you trust")
    loaded = load_settings(ctx)
    file = journal or exported
    proof = _load_proof(loaded.home, display_location(loaded.store), file, key_file, head)
    progress = None if as_json else _VerifyProgress()
    if exported is not None:
        report = verify_export(exported, proof, progress)
    else:
        report = verify_journal(_audited_journal(journal or loaded.store, proof), proof, progress)
    _print_report(report, as_json)
    return {"verified": exit_codes.OK, "tampered": exit_codes.STORE}.get(
        report.status, exit_codes.FAILED
    )


def _load_proof(
    home: Path, own: str, file: Path | None, key_file: Path | None, head: Path | None
) -> "AuditProof":
    from hermes.app.journal.audit_verification import proof_of_files, proof_of_home
    from hermes.policy.audit.head import HEAD_FILE_NAME, head_file

    head_beside = None if file is None else file.with_name(HEAD_FILE_NAME)
    if head_beside is not None and not head_beside.exists():
        head_beside = None
    from_files = file is not None and key_file is not None
    default_head = head_beside if from_files else head_file(home, own)
    if key_file is not None:
        return proof_of_files(key_file, head or default_head)
    return proof_of_home(home, head or default_head or head_file(home, own))


def _audited_journal(journal: Path | str, proof: "AuditProof") -> Path | str:
    if isinstance(journal, Path) and not journal.exists() and proof.head is None:
        raise HermesError(f"there is no journal yet: {journal} appears with the first conversation")
    return journal


class _VerifyProgress:
    """Shows the progress on a terminal when it takes longer than a second."""

    def __init__(self) -> None:
        self._started_at = time.monotonic()

    def __call__(self, seq: int) -> None:
        if sys.stderr.isatty() and time.monotonic() - self._started_at > 1:
            click.echo(f"\r{seq:,} events verified", nl=False, err=True)


def _print_report(report: "AuditReport", as_json: bool) -> None:
    plain = asdict(report)
    if as_json:
        print_json({"ok": report.status == "verified", **plain})
        return
    listed = ("problems", "doubts", "status")
    print_fields(
        {name.replace("_", " "): value for name, value in plain.items() if name not in listed}
    )
    for text in (*report.problems, *report.doubts):
        note(text)
    echo(_VERIFY_TEXTS[report.status], bold=True)


_VERIFY_TEXTS = {
    "verified": "verified: everything signed is as it was written",
    "tampered": "TAMPERED: this is not what was written",
    "unproven": "unproven: no contradiction, but see above for what is missing",
}


@cli_command("hermes audit key > audit.pub")
def key(ctx: click.Context, as_json: bool) -> None:
    """Print the public key. Keep a copy elsewhere: it is what `verify --key` trusts."""
    from hermes.policy.audit.audit_key import read_own_public_key
    from hermes.policy.audit.signer import key_fingerprint

    home = load_settings(ctx).home
    public, wrong = read_own_public_key(home)
    if public is None or wrong:
        raise HermesError(f"{wrong}; a key is created with the first signature")
    if as_json:
        print_json({"public": public.hex(), "fingerprint": key_fingerprint(public)})
        return
    echo(public.hex())
    note(f"fingerprint {key_fingerprint(public)}")


AUDIT_VERDICTS = ("allow", "ask", "deny", "dry-run")


@cli_command("""
hermes audit show --since 7d
hermes audit show --run latest --verdict ask
hermes audit show --rule 'destructive*' --json
""")
@since_option
@click.option("--run", help="Only one run and its subagents: an id, a title, or latest.")
@click.option("--rule", default="*", help="Only decisions of this rule; may contain * and ?.")
@click.option("--verdict", type=click.Choice(AUDIT_VERDICTS), help="Only this verdict.")
def show(
    ctx: click.Context,
    since: datetime | None,
    run: str | None,
    rule: str,
    verdict: str | None,
    as_json: bool,
) -> None:
    """List decisions, approvals and executions: who, what, which rule, which result."""
    loaded = load_settings(ctx)

    async def query(journal: JournalStore) -> tuple[str, list[JournalRecord]]:
        wanted = (await find_run(journal, run)).id if run else ""
        return wanted, [one async for one in journal.read(kinds=AUDIT_EVENT_KINDS)]

    wanted, records = query_journal(loaded, query) if store_exists(loaded.store) else ("", [])
    audit_filter = AuditFilter(since=since, run=wanted, rule=rule, verdict=verdict or "")
    actions = [action for action in fold_audited_actions(records) if audit_filter.matches(action)]
    if as_json:
        print_json([asdict(action) for action in actions])
        return
    print_table(
        ("event", "at", "run", "who", "action", "verdict", "rule", "people", "result"),
        [_audit_row(action) for action in actions],
        empty="there are no decisions yet" if not records else "nothing matches",
    )


def _audit_row(entry: AuditedAction) -> tuple[object, ...]:
    action = clip(escape_invisible(f"{entry.tool}: {entry.what}"), 60)
    result = entry.result or ("running, or interrupted" if entry.started else "not run")
    when = entry.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    people = "; ".join(entry.people)
    return entry.seq, when, entry.run, entry.who, action, entry.verdict, entry.rule, people, result


@cli_command("""
hermes audit export -o audit.jsonl
hermes audit verify --export audit.jsonl
""")
@click.option("--full", is_flag=True, help="Also conversations; default: only their hashes.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A new file; else stdout.")
def export(ctx: click.Context, full: bool, output: Path | None) -> None:
    """Write the log as JSON lines with digests: `verify --export` can verify it anywhere.

    Conversations are left out: other events than decisions are written as hashes. Secrets recorded
    by older versions are removed, and the hash of the original event is added.
    """
    from hermes.app.secret_redactor import SecretRedactor
    from hermes.memory.journal.verification import export_verifiable

    loaded = load_settings(ctx)
    lines = export_verifiable(
        require_journal(loaded),
        None if full else AUDIT_EVENT_KINDS,
        clean=SecretRedactor(loaded).clean_recorded,
    )
    write_events(lines, output, new_file_only=True)
    if output is not None:
        note("pass audit.pub and audit.head on with it: they are needed for verification")
