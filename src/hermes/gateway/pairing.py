"""Pairing: a user with a shell lets an unknown person talk to Hermes by a code.

The gateway calls `PairingCodes.offer` when an unknown person writes in a direct chat, and sends the
text it returns; `hermes pairing approve` calls `redeem` with the code that the person passed on.
Who was let in is an event (`pairing.approved`), which `People.is_paired` reads; nothing here
decides who may talk.

    codes = PairingCodes(home / "pairing")
    offer = codes.offer("telegram", "123456789", shown="Alice")
    offer.code, offer.text      # the text to send; without a code it says why, or is empty
    codes.redeem("telegram", "7KQ2M9XA").id

Codes are kept as salted hashes, one file for each channel that only the owner can read.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from hermes.core.errors import HermesError
from hermes.core.foreign_text import visible_line
from hermes.core.messages import Value
from hermes.plumbing.files import FileLock, write_atomically

CODE_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""32 characters without those that look alike."""
CODE_CHARS = 8
CODE_LIFE = timedelta(hours=1)
PAUSE_BETWEEN_CODES = timedelta(minutes=10)
MAX_PENDING = 3
"""Codes that wait on one channel."""
MAX_WRONG_CODES = 5
LOCK_TIME = timedelta(hours=1)
"""How long a channel takes no codes after so many wrong ones."""
_HASH_ROUNDS = 50_000
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700


class PairingOffer(Value, kw_only=True, frozen=True):
    code: str = ""
    """Empty: the person gets none now."""
    text: str = ""
    """What to send to the person; empty: nothing, they got it a moment ago."""


class PendingPairing(Value, kw_only=True, frozen=True):
    """A person who waits to be let in."""

    channel: str
    id: str
    shown: str = ""
    """How the platform displays them; anyone can choose that."""
    asked_at: datetime
    salt: str
    hash: str

    def is_valid(self, now: datetime) -> bool:
        return self.asked_at <= now < self.asked_at + CODE_LIFE


class _ChannelFile(msgspec.Struct, kw_only=True):
    pending: list[PendingPairing] = []
    offered: dict[str, datetime] = {}
    """When each person got the last code."""
    wrong: list[datetime] = []
    locked_until: datetime | None = None


def utc_now() -> datetime:
    return datetime.now(UTC)


class PairingCodes:
    """The codes of one home; all processes share them."""

    def __init__(self, folder: Path, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._folder = folder
        self._clock = clock

    def offer(self, channel: str, id: str, *, shown: str = "") -> PairingOffer:
        """A code for an unknown person, or why there is none."""
        now = self._clock()
        with self._changing(channel) as kept:
            last = kept.offered.get(id)
            if last is not None and now - last < PAUSE_BETWEEN_CODES:
                return PairingOffer()
            if len(kept.pending) >= MAX_PENDING and all(each.id != id for each in kept.pending):
                kept.offered[id] = now
                return PairingOffer(
                    text="I do not know you, and too many people wait to be let in. "
                    "Try again in an hour."
                )
            code = "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_CHARS))
            salt = secrets.token_hex(16)
            others = [each for each in kept.pending if each.id != id]
            new = PendingPairing(
                channel=channel,
                id=id,
                shown=visible_line(shown, 60),
                asked_at=now,
                salt=salt,
                hash=_hash_code(code, salt),
            )
            kept.pending, kept.offered[id] = [*others, new], now
        return PairingOffer(
            code=code,
            text=f"I do not know you. Ask somebody with a shell on my machine to run: "
            f"hermes pairing approve {channel} {code}",
        )

    def redeem(self, channel: str, code: str) -> PendingPairing:
        """The person who got this code; the code is used up. Raises `HermesError`."""
        now, given = self._clock(), code.strip().upper()
        with self._changing(channel) as kept:
            if kept.locked_until is not None and now < kept.locked_until:
                raise HermesError(
                    f"too many wrong codes: {channel} takes none until "
                    f"{kept.locked_until.astimezone():%H:%M}"
                )
            for each in kept.pending:
                if hmac.compare_digest(each.hash, _hash_code(given, each.salt)):
                    kept.pending = [other for other in kept.pending if other.id != each.id]
                    kept.wrong = []
                    return each
            kept.wrong.append(now)
            left = MAX_WRONG_CODES - len(kept.wrong)
            if left <= 0:
                kept.locked_until, kept.wrong = now + LOCK_TIME, []
        tries = f"{left} more tries" if left > 0 else "no more codes for an hour"
        raise HermesError(
            f"no such code on {channel} ({tries}); a code is valid for an hour, "
            "`hermes pairing list` shows who waits"
        )

    def pending(self) -> list[PendingPairing]:
        """Return who waits now, on all channels, the first to ask first."""
        now, found = self._clock(), []
        for file in sorted(self._folder.glob("*.json")):
            found += [each for each in _read_file(file).pending if each.is_valid(now)]
        return sorted(found, key=lambda each: each.asked_at)

    @contextmanager
    def _changing(self, channel: str) -> Iterator[_ChannelFile]:
        """The codes of a channel without expired ones; changes are written, also on an error."""
        if not channel.replace("-", "").replace("_", "").isalnum():
            raise HermesError(f"there is no channel {channel!r}")
        self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        self._folder.chmod(_FOLDER_MODE)
        file, now = self._folder / f"{channel}.json", self._clock()
        lock = FileLock(self._folder / f"{channel}.lock")
        try:
            kept = _read_file(file)
            kept.pending = [each for each in kept.pending if each.is_valid(now)]
            kept.wrong = [at for at in kept.wrong if now - LOCK_TIME < at <= now]
            kept.offered = {
                id: at for id, at in kept.offered.items() if now - at < PAUSE_BETWEEN_CODES
            }
            try:
                yield kept
            finally:
                write_atomically(file, msgspec.json.encode(kept), mode=_FILE_MODE, keep_mode=False)
        finally:
            lock.release()


def _hash_code(code: str, salt: str) -> str:
    return hashlib.pbkdf2_hmac("sha256", code.encode(), bytes.fromhex(salt), _HASH_ROUNDS).hex()


def _read_file(file: Path) -> _ChannelFile:
    """A damaged file holds no codes: the people who wait ask again."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=_ChannelFile)
    except (OSError, msgspec.DecodeError):
        return _ChannelFile()
