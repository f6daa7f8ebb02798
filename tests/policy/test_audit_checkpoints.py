"""A signed checkpoint proves what the head of the journal was; only the key can make one."""

import random
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from hermes.core.errors import SettingsError
from hermes.policy.audit import Checkpoint, Signer, open_signer, read_public, verify, verify_chain

SIGNER = Signer(bytes(range(32)))
AT = datetime(2026, 3, 2, tzinfo=UTC)


def chain(count: int = 5) -> list[Checkpoint]:
    made: list[Checkpoint] = []
    for number in range(1, count + 1):
        after = made[-1] if made else None
        made.append(SIGNER.sign(number * 10, f"{number:064x}", after=after, at=AT))
    return made


def digests(count: int = 5) -> dict[int, str]:
    return {number * 10: f"{number:064x}" for number in range(1, count + 1)}


def test_what_was_signed_verifies() -> None:
    assert all(verify(checkpoint, SIGNER.public) for checkpoint in chain())
    assert list(verify_chain(chain(), SIGNER.public, digests().get)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 11},
        {"digest": "0" * 64},
        {"at": AT + timedelta(seconds=1)},
        {"previous": "1" * 64},
        {"key": "0" * 16},
        {"signature": "00" * 64},
        {"signature": "not hex"},
        {"signature": ""},
    ],
    ids=str,
)
def test_any_change_of_it_is_seen(change: dict[str, object]) -> None:
    assert not verify(msgspec.structs.replace(chain(1)[0], **change), SIGNER.public)


def test_another_key_proves_nothing() -> None:
    other = Signer(bytes(32))
    assert not verify(chain(1)[0], other.public)
    assert not verify(other.sign(10, "a" * 64), SIGNER.public)


def test_a_thousand_ways_to_tamper_are_all_found() -> None:
    drawn = random.Random(7)
    for _ in range(1000):
        checkpoints, known = chain(), digests()
        match drawn.randrange(5):
            case 0:
                del checkpoints[drawn.randrange(4)]
            case 1:
                checkpoints.insert(drawn.randrange(5), drawn.choice(checkpoints))
            case 2:
                first, second = drawn.sample(range(5), 2)
                checkpoints[first], checkpoints[second] = checkpoints[second], checkpoints[first]
            case 3:
                known[drawn.choice(list(known))] = f"{drawn.getrandbits(256):064x}"
            case 4:
                del known[drawn.choice(list(known))]
        assert list(verify_chain(checkpoints, SIGNER.public, known.get))


def test_it_survives_the_journal() -> None:
    (checkpoint,) = chain(1)
    again = msgspec.json.decode(msgspec.json.encode(checkpoint), type=Checkpoint)
    assert verify(again, SIGNER.public)


def test_the_key_is_made_once_and_for_nobody_else(tmp_path: Path) -> None:
    signer = open_signer(tmp_path)
    assert stat.S_IMODE((tmp_path / "audit.key").stat().st_mode) == 0o600
    assert open_signer(tmp_path).public == signer.public == read_public(tmp_path)
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    open_signer(tmp_path)
    (tmp_path / "audit.key").chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        open_signer(tmp_path)


@pytest.mark.parametrize("content", ["", "zz", "00" * 31])
def test_a_damaged_key_is_told_and_never_replaced(tmp_path: Path, content: str) -> None:
    file = tmp_path / "audit.key"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(SettingsError, match="audit key"):
        open_signer(tmp_path)
    assert file.read_text() == content


def test_without_a_public_key_nothing_is_verified(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no public audit key"):
        read_public(tmp_path)
