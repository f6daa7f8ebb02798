import io
import random
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from exchange_homes import a_skill, bundle, check, entries, key
from msgspec.structs import replace

from hermes.skills.exchange.bundle import (
    SkillBundle,
    compute_files_digest,
    pack_files,
    read_bundle,
    unpack_files,
)
from hermes.skills.exchange.keyring import Keyring
from hermes.skills.exchange.signed_statements import (
    ExchangeError,
    KeyRotation,
    RevocationList,
    SignedStatement,
    sign_statement,
)
from hermes.skills.format import compute_skill_digest
from hermes.skills.scanner.finding import SkillFile, read_skill_files

NOW = datetime.now(UTC)


def ring(folder: Path, *bundles: bytes) -> Keyring:
    keyring = Keyring(folder)
    for data in bundles:
        taken(keyring, data)
    return keyring


def taken(keyring: Keyring, data: bytes) -> SkillBundle:
    found = read_bundle(data, check)
    keyring.check_bundle(found)
    keyring.record_bundle(found)
    return found


def test_the_same_skill_gives_the_same_bytes_and_what_was_packed_comes_out() -> None:
    listed = entries(playbook="version: 1\n")
    assert pack_files(listed) == pack_files(reversed(listed))
    assert sorted(unpack_files(pack_files(listed)), key=str) == sorted(listed, key=str)


def test_the_digest_is_that_of_the_folder(tmp_path: Path) -> None:
    skill = a_skill(tmp_path, playbook="x")
    assert compute_files_digest(read_skill_files(skill.folder)) == compute_skill_digest(
        skill.folder
    )


def test_a_thousand_random_changes_all_change_the_digest() -> None:
    chance = random.Random(6)  # not a secret: the same changes each time
    start = entries(a="one", b="two", c="three")
    known = compute_files_digest(start)
    for _ in range(1_000):
        at = chance.randrange(len(start))
        one = start[at]
        way = chance.choice(("name", "mode", "content", "order", "gone"))
        if way == "name":
            changed = replace(one, path=one.path + chance.choice("xyz"))
        elif way == "mode":
            changed = replace(one, executable=not one.executable)
        elif way == "order":
            other = start[(at + 1) % len(start)]
            rest = [each for each in start if each not in (one, other)]
            swapped = (replace(one, data=other.data), replace(other, data=one.data))
            assert compute_files_digest([*rest, *swapped]) != known
            continue
        elif way == "gone":
            assert compute_files_digest([*start[:at], *start[at + 1 :]]) != known
            continue
        else:
            spot = chance.randrange(len(one.data))
            flipped = bytes([one.data[spot] ^ 1 << chance.randrange(8)])
            changed = replace(one, data=one.data[:spot] + flipped + one.data[spot + 1 :])
        assert compute_files_digest([*start[:at], changed, *start[at + 1 :]]) != known


def test_a_bundle_changed_by_one_bit_is_refused() -> None:
    data = bundle()
    chance = random.Random(4)
    for _ in range(400):
        spot, bit = chance.randrange(len(data)), chance.randrange(8)
        changed = data[:spot] + bytes([data[spot] ^ 1 << bit]) + data[spot + 1 :]
        with pytest.raises(ExchangeError):
            read_bundle(changed, check)
    assert read_bundle(data, check).manifest.name == "old-logs"


def test_links_devices_and_names_that_lead_out_are_refused() -> None:
    for name, kind in (("skill/a", tarfile.SYMTYPE), ("skill/b", tarfile.CHRTYPE)):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
        with pytest.raises(ExchangeError, match="not a plain file"):
            unpack_files(buffer.getvalue())
    for path in ("../x", "/etc/x", "a/../../x", "a\\b"):
        with pytest.raises(ExchangeError):
            unpack_files(pack_files([SkillFile(path=path, data=b"")]))


def test_something_behind_the_archive_is_refused() -> None:
    with pytest.raises(ExchangeError, match="hidden"):
        unpack_files(pack_files(entries()) + b"\0" * 512 + b"more")


def test_an_expired_bundle_is_refused() -> None:
    with pytest.raises(ExchangeError, match="expired"):
        read_bundle(bundle(lifetime=timedelta(days=1)), check, now=NOW + timedelta(days=2))


def test_an_older_version_is_not_taken_again(tmp_path: Path) -> None:
    old, new = bundle(1), bundle(2, skill=entries(more="x"))
    keyring = ring(tmp_path, old, new)
    with pytest.raises(ExchangeError, match="only go up"):
        keyring.check_bundle(read_bundle(old, check))
    assert Keyring(tmp_path).find("alice").versions["old-logs"][0] == 2


def test_other_content_under_the_same_version_is_refused(tmp_path: Path) -> None:
    keyring = ring(tmp_path, bundle(1))
    with pytest.raises(ExchangeError, match="other content"):
        keyring.check_bundle(read_bundle(bundle(1, skill=entries(more="x")), check))


def test_the_first_key_of_a_publisher_is_pinned(tmp_path: Path) -> None:
    keyring = ring(tmp_path, bundle(1))
    with pytest.raises(ExchangeError, match="is known here by key"):
        keyring.check_bundle(read_bundle(bundle(2, key(2)), check))
    with pytest.raises(ExchangeError, match="cannot be"):
        keyring.check_bundle(read_bundle(bundle(1, key(1), publisher="bob"), check))


def test_a_new_key_counts_only_in_the_words_of_the_old_one(tmp_path: Path) -> None:
    keyring = ring(tmp_path, bundle(1))
    change = KeyRotation(publisher="alice", new=key(2).key, at=NOW)
    with pytest.raises(ExchangeError):
        keyring.rotate(sign_statement("rotation", change, key(3)), check)
    keyring.rotate(sign_statement("rotation", change, key(1)), check)
    keyring.check_bundle(read_bundle(bundle(2, key(2)), check))
    with pytest.raises(ExchangeError, match="was replaced"):
        keyring.check_bundle(read_bundle(bundle(3, key(1)), check))


def test_what_was_revoked_is_refused_and_lists_only_grow(tmp_path: Path) -> None:
    keyring = ring(tmp_path, bundle(1))
    digest = read_bundle(bundle(1), check).manifest.digest
    listed = RevocationList(publisher="alice", number=2, digests=(digest,))
    assert (
        keyring.apply_revocations(sign_statement("revocations", listed, key()), check) is not None
    )
    with pytest.raises(ExchangeError, match="revoked"):
        keyring.check_bundle(read_bundle(bundle(1), check))
    older = RevocationList(publisher="alice", number=1)
    assert keyring.apply_revocations(sign_statement("revocations", older, key()), check) is None
    keyring.revoke(keys=(key().key,))
    with pytest.raises(ExchangeError, match="revoked"):
        Keyring(tmp_path).check_bundle(read_bundle(bundle(2, skill=entries(more="y")), check))


def test_nobody_revokes_for_somebody_else(tmp_path: Path) -> None:
    keyring = ring(tmp_path, bundle(1))
    listed = RevocationList(publisher="alice", number=2, digests=("0" * 64,))
    with pytest.raises(ExchangeError):
        keyring.apply_revocations(sign_statement("revocations", listed, key(2)), check)


def test_a_statement_of_one_kind_is_no_other(tmp_path: Path) -> None:
    keyring = ring(tmp_path, bundle(1))
    sealed = sign_statement("index", KeyRotation(publisher="alice", new=key(2).key, at=NOW), key())
    passed_off = SignedStatement(
        kind="rotation", body=sealed.body, key=sealed.key, signature=sealed.signature
    )
    with pytest.raises(ExchangeError, match="signature"):
        keyring.rotate(passed_off, check)


def test_a_damaged_keyring_trusts_nobody(tmp_path: Path) -> None:
    (tmp_path / "keyring.json").write_text("{")
    with pytest.raises(ExchangeError, match="damaged"):
        Keyring(tmp_path)
