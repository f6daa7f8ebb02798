import io
import random
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from exchange_homes import a_skill, bundle, check, entries, key
from msgspec.structs import replace

from hermes.skills.exchange.archive import Refused, digest_of_entries, pack, unpack
from hermes.skills.exchange.bundle import Bundle, read_bundle
from hermes.skills.exchange.keyring import Keyring
from hermes.skills.exchange.sealing import Sealed, seal
from hermes.skills.exchange.statements import Revocations, Rotation
from hermes.skills.format.digest import digest_of
from hermes.skills.scanner.finding import Entry, entries_of

NOW = datetime.now(UTC)


def ring(folder: Path, *bundles: bytes) -> Keyring:
    keyring = Keyring(folder)
    for data in bundles:
        taken(keyring, data)
    return keyring


def taken(keyring: Keyring, data: bytes) -> Bundle:
    found = read_bundle(data, check)
    keyring.admit(found)
    keyring.accept(found)
    return found


def test_the_same_skill_gives_the_same_bytes_and_what_was_packed_comes_out() -> None:
    listed = entries(playbook="version: 1\n")
    assert pack(listed) == pack(reversed(listed))
    assert sorted(unpack(pack(listed)), key=str) == sorted(listed, key=str)


def test_the_digest_is_that_of_the_folder(tmp_path: Path) -> None:
    skill = a_skill(tmp_path, playbook="x")
    assert digest_of_entries(entries_of(skill.folder)) == digest_of(skill.folder)


def test_a_thousand_random_changes_all_change_the_digest() -> None:
    chance = random.Random(6)  # not a secret: the same changes each time
    start = entries(a="one", b="two", c="three")
    known = digest_of_entries(start)
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
            assert digest_of_entries([*rest, *swapped]) != known
            continue
        elif way == "gone":
            assert digest_of_entries([*start[:at], *start[at + 1 :]]) != known
            continue
        else:
            spot = chance.randrange(len(one.data))
            flipped = bytes([one.data[spot] ^ 1 << chance.randrange(8)])
            changed = replace(one, data=one.data[:spot] + flipped + one.data[spot + 1 :])
        assert digest_of_entries([*start[:at], changed, *start[at + 1 :]]) != known


def test_a_bundle_changed_by_one_bit_is_refused() -> None:
    data = bundle()
    chance = random.Random(4)
    for _ in range(400):
        spot, bit = chance.randrange(len(data)), chance.randrange(8)
        changed = data[:spot] + bytes([data[spot] ^ 1 << bit]) + data[spot + 1 :]
        with pytest.raises(Refused):
            read_bundle(changed, check)
    assert read_bundle(data, check).manifest.name == "old-logs"


def test_links_devices_and_names_that_lead_out_are_refused() -> None:
    for name, kind in (("skill/a", tarfile.SYMTYPE), ("skill/b", tarfile.CHRTYPE)):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
        with pytest.raises(Refused, match="no plain file"):
            unpack(buffer.getvalue())
    for path in ("../x", "/etc/x", "a/../../x", "a\\b"):
        with pytest.raises(Refused):
            unpack(pack([Entry(path=path, data=b"")]))


def test_something_behind_the_archive_is_refused() -> None:
    with pytest.raises(Refused, match="hidden"):
        unpack(pack(entries()) + b"\0" * 512 + b"more")


def test_an_expired_bundle_is_refused() -> None:
    with pytest.raises(Refused, match="expired"):
        read_bundle(bundle(life=timedelta(days=1)), check, now=NOW + timedelta(days=2))


def test_an_older_version_is_not_taken_again(tmp_path: Path) -> None:
    old, new = bundle(1), bundle(2, skill=entries(more="x"))
    keyring = ring(tmp_path, old, new)
    with pytest.raises(Refused, match="only go up"):
        keyring.admit(read_bundle(old, check))
    assert Keyring(tmp_path).find("alice").versions["old-logs"][0] == 2


def test_other_content_under_the_same_version_is_refused(tmp_path: Path) -> None:
    keyring = ring(tmp_path, bundle(1))
    with pytest.raises(Refused, match="other content"):
        keyring.admit(read_bundle(bundle(1, skill=entries(more="x")), check))


def test_the_first_key_of_a_publisher_is_pinned(tmp_path: Path) -> None:
    keyring = ring(tmp_path, bundle(1))
    with pytest.raises(Refused, match="is known here by key"):
        keyring.admit(read_bundle(bundle(2, key(2)), check))
    with pytest.raises(Refused, match="cannot be"):
        keyring.admit(read_bundle(bundle(1, key(1), publisher="bob"), check))


def test_a_new_key_counts_only_in_the_words_of_the_old_one(tmp_path: Path) -> None:
    keyring = ring(tmp_path, bundle(1))
    change = Rotation(publisher="alice", new=key(2).key, at=NOW)
    with pytest.raises(Refused):
        keyring.rotate(seal("rotation", change, key(3)), check)
    keyring.rotate(seal("rotation", change, key(1)), check)
    keyring.admit(read_bundle(bundle(2, key(2)), check))
    with pytest.raises(Refused, match="was replaced"):
        keyring.admit(read_bundle(bundle(3, key(1)), check))


def test_what_was_revoked_is_refused_and_lists_only_grow(tmp_path: Path) -> None:
    keyring = ring(tmp_path, bundle(1))
    digest = read_bundle(bundle(1), check).manifest.digest
    listed = Revocations(publisher="alice", number=2, digests=(digest,))
    assert keyring.take_back(seal("revocations", listed, key()), check) is not None
    with pytest.raises(Refused, match="revoked"):
        keyring.admit(read_bundle(bundle(1), check))
    older = Revocations(publisher="alice", number=1)
    assert keyring.take_back(seal("revocations", older, key()), check) is None
    keyring.revoke(keys=(key().key,))
    with pytest.raises(Refused, match="revoked"):
        Keyring(tmp_path).admit(read_bundle(bundle(2, skill=entries(more="y")), check))


def test_nobody_revokes_for_somebody_else(tmp_path: Path) -> None:
    keyring = ring(tmp_path, bundle(1))
    listed = Revocations(publisher="alice", number=2, digests=("0" * 64,))
    with pytest.raises(Refused):
        keyring.take_back(seal("revocations", listed, key(2)), check)


def test_a_statement_of_one_kind_is_no_other(tmp_path: Path) -> None:
    keyring = ring(tmp_path, bundle(1))
    sealed = seal("index", Rotation(publisher="alice", new=key(2).key, at=NOW), key())
    passed_off = Sealed(
        kind="rotation", body=sealed.body, key=sealed.key, signature=sealed.signature
    )
    with pytest.raises(Refused, match="signature"):
        keyring.rotate(passed_off, check)


def test_a_damaged_keyring_trusts_nobody(tmp_path: Path) -> None:
    (tmp_path / "keyring.json").write_text("{")
    with pytest.raises(Refused, match="damaged"):
        Keyring(tmp_path)
