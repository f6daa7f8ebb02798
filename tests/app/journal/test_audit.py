"""The audit log of a real home: signed while it is written, and every tampering with it found."""

import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import anyio
import msgspec
import pytest
from audit_tampering import TRICKS, Intruder, answer_otherwise, fresh_copy, make_log, story

import hermes
from hermes.app.journal import upkeep
from hermes.app.journal.audit_verification import (
    AuditProof,
    AuditReport,
    proof_of_home,
    verify_export,
    verify_journal,
)
from hermes.app.journal.upkeep import CheckpointSigner
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError, StoreError
from hermes.core.events.runs import RunDeleted, TurnStarted
from hermes.core.events.tools import ToolDecided, ToolFinished
from hermes.core.messages import ToolResult
from hermes.memory.journal.maintenance import compact
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.journal.verification import export_verifiable, verify
from hermes.policy.audit.head import AuditHead

pytestmark = pytest.mark.anyio
FOLDERS = Path(__file__).parent, Path(hermes.__file__).parents[1]
VARIABLES = {"PYTHONPATH": os.pathsep.join(map(str, FOLDERS)), "PATH": ""}


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    await make_log(tmp_path / "home")
    return tmp_path / "home"


def verified(home: Path) -> AuditReport:
    return verify_journal(home / "journal.db", proof_of_home(home, home / "audit.head"))


async def test_a_whole_log_is_verified_to_its_last_event(home: Path) -> None:
    report = verified(home)
    assert (report.status, report.problems, report.doubts) == ("verified", (), ())
    assert (report.events, report.checkpoints, report.signed_to) == (42, 6, 42)


async def test_five_hundred_random_ways_to_tamper_are_all_found(home: Path, tmp_path: Path) -> None:
    drawn = random.Random(11)
    missed, tried = [], set()
    for _ in range(500):
        copy = fresh_copy(home, tmp_path / "copy")
        what = Intruder(copy, drawn).strike()
        tried.add(what.partition(":")[0])
        if verified(copy).status == "verified":
            missed.append(what)
    assert missed == []
    assert tried == {trick.__name__ for trick in TRICKS}


async def test_a_change_with_a_new_chain_is_found_by_the_signature_alone(home: Path) -> None:
    intruder = Intruder(home, random.Random(1))
    with intruder.rows(relink=True):
        pass
    assert verified(home).status == "verified", "writing the same rows again changes nothing"
    while True:
        answer_otherwise(intruder)
        if verify(home / "journal.db").ok:
            break
    report = verified(home)
    assert report.status == "tampered"
    assert "changed, removed, added or moved" in report.problems[0]


async def test_a_journal_that_is_gone_is_missed(home: Path) -> None:
    (home / "journal.db").unlink()
    report = verified(home)
    assert report.status == "tampered"
    assert "42 events were signed in it" in report.problems[0]


async def test_an_old_home_without_signatures_is_unproven_and_says_why(tmp_path: Path) -> None:
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        await journal.append(*story("run-1", 1))
    report = verified(tmp_path)
    assert report.status == "unproven"
    assert any("no public key" in doubt for doubt in report.doubts)
    assert any("nothing in it is signed" in doubt for doubt in report.doubts)
    assert any("no audit head" in doubt for doubt in report.doubts)


async def test_a_lost_head_is_not_silently_fine(home: Path) -> None:
    (home / "audit.head").unlink()
    assert verified(home).status == "unproven"


async def test_a_new_key_after_a_lost_one_is_told(home: Path) -> None:
    (home / "audit.key").unlink()
    async with SqliteJournal.open(home / "journal.db") as journal:
        await journal.append(*story("run-1", 7))
        await CheckpointSigner(journal, home, str(home / "journal.db")).sign()
    report = verified(home)
    assert report.status == "tampered"
    assert "6 checkpoints were signed with another key" in report.problems[-1]


async def test_a_deleted_conversation_leaves_and_the_proof_stays(home: Path) -> None:
    async with SqliteJournal.open(home / "journal.db") as journal:
        await journal.append(RunDeleted(run="run-0"))
        await CheckpointSigner(journal, home, str(home / "journal.db")).sign()
    assert compact(home / "journal.db").purged > 0
    report = verified(home)
    assert (report.status, report.problems) == ("verified", ())


async def test_an_export_proves_itself_without_the_journal(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    lines = list(export_verifiable(home / "journal.db", ("tool.decided", "audit.signed")))
    file.write_bytes(b"\n".join(lines) + b"\n")
    assert b"the disk is full" not in file.read_bytes(), "what was said stays at home"
    proof = proof_of_home(home, home / "audit.head")
    assert verify_export(file, proof).status == "verified"
    drawn = random.Random(3)
    for _ in range(200):
        changed = list(lines)
        match drawn.randrange(4):
            case 0:
                del changed[drawn.randrange(len(changed))]
            case 1:
                first, second = drawn.sample(range(len(changed)), 2)
                changed[first], changed[second] = changed[second], changed[first]
            case 2:
                at = drawn.randrange(len(changed))
                changed[at] = changed[at].replace(b"destructive", b"default-reads")
                changed[at] = changed[at].replace(b'"hash":"', b'"hash":"0')
                if changed[at] == lines[at]:
                    del changed[at]
            case _:
                del changed[-drawn.randrange(1, len(changed)) :]
        file.write_bytes(b"\n".join(changed) + b"\n")
        assert verify_export(file, proof).status == "tampered"


def test_eight_processes_that_sign_at_once_make_one_chain(tmp_path: Path) -> None:
    program = """
import anyio, sys
from pathlib import Path
from audit_tampering import story
from hermes.app.journal.upkeep import CheckpointSigner
from hermes.memory.journal.sqlite_journal import SqliteJournal

async def main(home, name):
    path = home / "journal.db"
    async with SqliteJournal.open(path) as journal:
        signer = CheckpointSigner(journal, home, str(path))
        for number in range(8):
            await journal.append(*story(name, number))
            await signer.sign()

anyio.run(main, Path(sys.argv[1]), sys.argv[2])
"""
    working = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path), f"run-{number}"],
            env=VARIABLES,
        )
        for number in range(8)
    ]
    assert [one.wait(timeout=60) for one in working] == [0] * 8
    report = verified(tmp_path)
    assert (report.status, report.problems) == ("verified", ())
    assert report.events == report.signed_to == 8 * 8 * 6 + report.checkpoints
    assert report.checkpoints > 8


class Signing:
    """A house's bus with its notary, over a real journal."""

    def __init__(self, journal: SqliteJournal, home: Path, *, in_own_process: bool = False) -> None:
        place = str(home / "journal.db")
        self.notary = CheckpointSigner(journal, home, place, in_own_process=in_own_process)
        self.bus = Bus(journal, on_recorded=self.notary.note_event)


async def test_a_question_that_touches_nothing_loads_no_signature(home: Path) -> None:
    before = (home / "audit.head").read_bytes()
    async with SqliteJournal.open(home / "journal.db") as journal:
        house = Signing(journal, home)
        async with house.notary:
            await house.bus.publish(TurnStarted(run="run-9", turn=1))
    assert (home / "audit.head").read_bytes() == before
    report = verified(home)
    assert (report.status, report.unsigned) == ("verified", 1)


async def test_a_first_house_signs_when_it_closes(tmp_path: Path) -> None:
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        house = Signing(journal, tmp_path)
        async with house.notary:
            await house.bus.publish(TurnStarted(run="run-9", turn=1))
    assert verified(tmp_path).status == "verified"


async def test_even_a_read_is_signed_for_when_the_house_closes(home: Path) -> None:
    async with SqliteJournal.open(home / "journal.db") as journal:
        house = Signing(journal, home)
        async with house.notary:
            await house.bus.publish(
                ToolDecided(run="r", call_id="c", verdict="allow", rule="x", effects=("read",))
            )
    assert verified(home).unsigned == 0


async def test_a_settled_change_is_signed_at_once(home: Path) -> None:
    async with SqliteJournal.open(home / "journal.db") as journal:
        house = Signing(journal, home)
        async with house.notary:
            before = await journal.last()
            done = ToolResult(call_id="c", content="gone")
            await house.bus.publish(
                ToolDecided(run="r", call_id="c", verdict="allow", rule="x", effects=("delete",)),
                ToolFinished(run="r", result=done),
            )
            await journal.changed(before + 2)
            signed = [one async for one in journal.read(after=before, kinds=("audit.signed",))]
    assert [one.seq for one in signed] == [before + 3]


async def test_a_key_that_cannot_be_used_is_told_at_the_end(home: Path) -> None:
    (home / "audit.key").chmod(0o644)
    async with SqliteJournal.open(home / "journal.db") as journal:
        house = Signing(journal, home)
        with pytest.raises(SettingsError, match="chmod 600"):
            async with house.notary:
                await house.bus.publish(*story("run-1", 1))
    async with SqliteJournal.open(home / "journal.db") as journal:
        assert await journal.last() == 48, "the work itself was kept"


async def test_a_signature_of_another_process_is_verified_and_loads_nothing(home: Path) -> None:
    program = """
import anyio, sys
from pathlib import Path
from hermes.app.journal.upkeep import CheckpointSigner
from hermes.core.events.runs import TurnStarted
from hermes.memory.journal.sqlite_journal import SqliteJournal

async def main(home):
    async with SqliteJournal.open(home / "journal.db") as journal:
        await journal.append(TurnStarted(run="run-9", turn=1))
        place = str(home / "journal.db")
        await CheckpointSigner(journal, home, place, in_own_process=True).sign()
    sys.exit("cryptography" in sys.modules)

anyio.run(main, Path(sys.argv[1]))
"""
    run = await anyio.run_process(
        [sys.executable, "-c", program, str(home)],
        env=VARIABLES,
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()
    report = verified(home)
    assert (report.status, report.checkpoints, report.unsigned) == ("verified", 7, 0)


def test_a_watch_signs_without_loading_the_library(tmp_path: Path) -> None:
    program = """
import atexit, sys
from hermes.cli.main import main

atexit.register(lambda: print("loaded:", "cryptography" in sys.modules))
main()
"""
    probe = '{"name": "memory", "kind": "memory", "limit": 101}'
    (tmp_path / "probes.yaml").write_text(f'{{"probes": [{probe}]}}')
    run = subprocess.run(
        [sys.executable, "-c", program, "watch", "--once", "--model", "none", "--no-listen"],
        env={**VARIABLES, "HERMES_HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert run.stdout.splitlines()[-1] == "loaded: False"
    report = verified(tmp_path)
    assert (report.status, report.checkpoints, report.unsigned) == ("verified", 1, 0)


async def test_a_signing_process_that_dies_loses_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SqliteJournal.open(home / "journal.db") as journal:
        house = Signing(journal, home, in_own_process=True)
        with monkeypatch.context() as broken:
            broken.setattr(sys, "executable", "/bin/false")
            with pytest.raises(StoreError, match="the process that signs failed"):
                async with house.notary:
                    await house.bus.publish(*story("run-1", 7))
    assert (verified(home).status, verified(home).unsigned) == ("verified", 6)
    async with SqliteJournal.open(home / "journal.db") as journal:
        house = Signing(journal, home, in_own_process=True)
        async with house.notary:
            await house.bus.publish(*story("run-1", 8))
    assert (verified(home).status, verified(home).unsigned) == ("verified", 0)


async def test_what_could_not_be_signed_is_signed_later_without_a_new_event(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MAX_UNSIGNED_S", 0.1)
    monkeypatch.setattr(upkeep, "MIN_SIGN_INTERVAL_S", 0.1)
    async with SqliteJournal.open(home / "journal.db") as journal:
        house, before = Signing(journal, home, in_own_process=True), await journal.last()
        with monkeypatch.context() as broken:
            broken.setattr(sys, "executable", "/bin/false")
            async with house.notary:
                await house.bus.publish(TurnStarted(run="run-9", turn=1))
                await anyio.sleep(1)
                assert await journal.last() == before + 1
                broken.undo()
                with anyio.fail_after(120):
                    await journal.changed(before + 1)
    assert (verified(home).status, verified(home).unsigned) == ("verified", 0)


async def test_an_error_of_the_work_comes_out_as_it_is(home: Path) -> None:
    async with SqliteJournal.open(home / "journal.db") as journal:
        with pytest.raises(KeyError):
            async with Signing(journal, home).notary:
                raise KeyError


async def test_a_head_that_was_put_back_after_a_newer_signature_is_found(home: Path) -> None:
    old = (home / "audit.head").read_bytes()
    async with SqliteJournal.open(home / "journal.db") as journal:
        await journal.append(*story("run-1", 7))
        await CheckpointSigner(journal, home, str(home / "journal.db")).sign()
    (home / "audit.head").write_bytes(old)
    intruder = Intruder(home, random.Random(2))
    with intruder.rows(relink=False) as rows:
        del rows[44]
    assert verified(home).status == "tampered", "checkpoints behind the head still count"


async def test_a_stranger_with_the_public_key_verifies_a_copy(home: Path) -> None:
    public = bytes.fromhex((home / "audit.pub").read_text())
    head = msgspec.json.decode((home / "audit.head").read_bytes(), type=AuditHead)
    report = verify_journal(home / "journal.db", AuditProof(public=public, head=head))
    assert report.status == "verified"


async def test_the_counter_of_the_store_need_not_be_trusted(home: Path) -> None:
    database = sqlite3.connect(home / "journal.db")
    with database:
        database.execute("DELETE FROM event WHERE seq > 40")
        database.execute("UPDATE sqlite_sequence SET seq = 40")
    database.close()
    assert verify(home / "journal.db").ok, "the chain alone cannot see it"
    (problem,) = verified(home).problems
    assert "it ends at event 40, events 41 to 42 are gone" in problem


def test_the_library_is_not_loaded_with_the_house() -> None:
    code = "import sys, hermes.app.application; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_tampering_is_found_while_others_go_on_writing(home: Path) -> None:
    intruder = Intruder(home, random.Random(5))
    with intruder.rows(relink=True) as rows:
        del rows[3]
    reports: list[AuditReport] = []
    async with (
        SqliteJournal.open(home / "journal.db") as journal,
        anyio.create_task_group() as group,
    ):

        async def write() -> None:
            while True:
                await journal.append(*story("run-1", 1))

        group.start_soon(write)
        for _ in range(5):
            reports.append(await anyio.to_thread.run_sync(verified, home))
        group.cancel_scope.cancel()
    assert [report.status for report in reports] == ["tampered"] * 5
