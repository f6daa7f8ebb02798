"""`hermes audit`: what was decided, by whom, and the proof that nobody rewrote it."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.cli import exits
from hermes.cli.lazy import ExampleGroup, Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, fields, json_option, note, say
from hermes.core.errors import HermesError

if TYPE_CHECKING:
    from hermes.app.audit_report import AuditReport, Proof

TABLE = {
    "verify": ("hermes.cli.audit:verify", "Find any edit, deletion, reordering or truncation"),
    "show": (
        "hermes.cli.audit_show:show",
        "Who wanted what, which rule said what, what came of it",
    ),
    "export": ("hermes.cli.audit_show:export", "The log as lines of JSON that prove themselves"),
    "key": ("hermes.cli.audit:key", "The public key, for those who verify elsewhere"),
}
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    examples="""
hermes audit verify
hermes audit show --since 7d --verdict ask
hermes audit export -o audit.jsonl && hermes audit verify --export audit.jsonl
hermes audit verify --journal copy.db --key audit.pub --head audit.head
""",
)
def audit() -> None:
    """Show, verify and export what was decided, approved and done."""


@click.command(cls=Examples, examples="hermes audit verify --json")
@click.option("--journal", type=FILE, help="A copied journal; needs --key.")
@click.option("--export", "exported", type=FILE, help="A file of `hermes audit export`.")
@click.option("--key", "key_file", type=FILE, help="Public key to trust; else the home's own.")
@click.option("--head", type=FILE, help="Signed head; else audit.head beside the file.")
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    journal: Path | None,
    exported: Path | None,
    key_file: Path | None,
    head: Path | None,
    as_json: bool,
) -> int:
    """Hold every event against the chain, the signed checkpoints and the head.

    Exit codes: 0 verified, 6 something was changed, removed, moved or cut off, 1 nothing speaks
    against it but something needed for the proof is missing (a key, a head, any signature).
    """
    from hermes.app.audit_report import verify_export, verify_journal
    from hermes.memory.opening import shown

    if journal and exported:
        raise click.UsageError("say either --journal or --export")
    if journal and not key_file:
        raise click.UsageError("a copied journal needs --key: the public key you trust")
    loaded = settings_for(ctx)
    file = journal or exported
    proof = _proof(loaded.home, shown(loaded.store), file, key_file, head)
    progress = None if as_json else _Progress()
    if exported is not None:
        report = verify_export(exported, proof, progress)
    else:
        report = verify_journal(_there(journal or loaded.store, proof), proof, progress)
    _tell(report, as_json)
    return {"verified": exits.OK, "tampered": exits.STORE}.get(report.status, exits.FAILED)


def _proof(
    home: Path, own: str, file: Path | None, key_file: Path | None, head: Path | None
) -> "Proof":
    from hermes.app.audit_report import proof_of_files, proof_of_home
    from hermes.policy.audit_head import NAME, head_file

    beside = None if file is None else file.with_name(NAME)
    if beside is not None and not beside.exists():
        beside = None
    usual = beside if file is not None and key_file is not None else head_file(home, own)
    if key_file is not None:
        return proof_of_files(key_file, head or usual)
    return proof_of_home(home, head or usual or head_file(home, own))


def _there(journal: Path | str, proof: "Proof") -> Path | str:
    if isinstance(journal, Path) and not journal.exists() and proof.head is None:
        raise HermesError(f"there is no journal yet: {journal} appears with the first conversation")
    return journal


class _Progress:
    """A line that is written over, on a terminal, once it takes longer than a moment."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, seq: int) -> None:
        if sys.stderr.isatty() and time.monotonic() - self._began > 1:
            click.echo(f"\r{seq:,} events verified", nl=False, err=True)


def _tell(report: "AuditReport", as_json: bool) -> None:
    plain = {name: getattr(report, name) for name in report.__struct_fields__}
    if as_json:
        emit_json({"ok": report.status == "verified", **plain})
        return
    listed = ("problems", "doubts", "status")
    fields({name.replace("_", " "): value for name, value in plain.items() if name not in listed})
    for text in (*report.problems, *report.doubts):
        note(text)
    say(_VERDICTS[report.status], bold=True)


_VERDICTS = {
    "verified": "verified: everything signed is as it was written",
    "tampered": "TAMPERED: this is not what was written",
    "unproven": "unproven: nothing speaks against it, but see above for what is missing",
}


@click.command(cls=Examples, examples="hermes audit key > audit.pub")
@json_option
@click.pass_context
def key(ctx: click.Context, as_json: bool) -> None:
    """Print the public key. Keep a copy elsewhere: it is what `verify --key` trusts."""
    from hermes.policy.audit import fingerprint_of
    from hermes.policy.audit_key import own_public

    home = settings_for(ctx).home
    public, wrong = own_public(home)
    if public is None or wrong:
        raise HermesError(f"{wrong}; a key is made when something is first signed")
    if as_json:
        emit_json({"public": public.hex(), "fingerprint": fingerprint_of(public)})
        return
    say(public.hex())
    note(f"fingerprint {fingerprint_of(public)}")
