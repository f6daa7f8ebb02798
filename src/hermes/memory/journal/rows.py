"""Events as rows: columns, compressed bodies and the digest chain.

Each event carries a digest over all events before it, so an edit, a gap or a swap is detected:
digest = H(digest before ‖ H(body) ‖ kind, run, at). Only the hash of the body goes in, so the text
of a deleted run can leave the store: its hash stays in its place and the chain still holds.

Anyone who can write the file can also compute a new chain, and a truncated journal has a shorter
chain that is valid. Only signed checkpoints (`writer.append_checkpoint`) and a head kept elsewhere
detect that.
"""

import zlib
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event, decode_event
from hermes.core.events.base import UnknownEvent
from hermes.core.foreign_text import replace_surrogates

REPAIR_HINT = "`hermes journal verify` says what can be saved, `hermes journal salvage` saves it"
GENESIS_DIGEST = bytes(32)
"""The digest before the first event."""


def hash_text(text: bytes) -> bytes:
    return sha256(text).digest()


def chain_digest(previous_digest: bytes, body_hash: bytes, kind: str, run: str, at: int) -> bytes:
    head = msgspec.json.encode((kind, run, at))  # marks where each part ends
    return sha256(previous_digest + body_hash + head).digest()


PACKED_MARK = b"\x01"
HASH_BYTES = 32
MIN_PACKED_BYTES = 48
"""Bytes below which compression costs more than it saves."""
_LARGE_BODY_BYTES = 1 << 13

# Text that nearly every body contains, the most common last. It is part of the format: existing
# files were compressed with it, so another one needs another mark.
_ZLIB_DICTIONARY = (
    b"the and that this with from have not for are was you but all can one will error failed "
    b"timeout connection refused exit code service running restart systemctl status docker "
    b"kubectl get pods logs namespace deployment nginx postgres redis /var/log/ /etc/ /usr/bin/ "
    b'.yaml .json .service https:// localhost 127.0.0.1 "status":"error"},"seconds":0.0'
    b'{"process":"","environment":"local","target":"","isolated":true,"cwd":"/'
    b'{"turn":1,"outcome":"answered"}{"id":"","speaker":"","text":"'
    b'{"origin":"cli","task":"","model":"anthropic:claude-openai:gpt-openrouter/'
    b'{"model":"openrouter/","usage":{"input_tokens":1000,"output_tokens":,"cached_tokens":,'
    b'"cost_usd":0.00},"seconds":1.","verdict":"allow","rule":"sandbox","reason":"",'
    b'"effects":["read","hash":"","risk":"change"}"risk":"read"}{"call_id":"call_'
    b'{"call":{"id":"call_","name":"read_file","arguments":{"path":"/'
    b'{"result":{"call_id":"toolu_","content":"","calls":[{"id":"call_","name":"terminal",'
    b'"arguments":{"command":"{"message":{"role":"assistant","text":"'
    b'{"message":{"role":"user","text":"'
)


def compress_body(text: str) -> str | bytes:
    """The body as it is stored: the text itself where compression would not help."""
    data = text.encode()
    if len(data) < MIN_PACKED_BYTES:
        return text
    # A small window is set up three times as fast, and the chain's digest is the checksum.
    window, memory = (-15, 8) if len(data) > _LARGE_BODY_BYTES else (-13, 6)
    press = zlib.compressobj(
        1, zlib.DEFLATED, window, memory, zlib.Z_DEFAULT_STRATEGY, _ZLIB_DICTIONARY
    )
    packed = PACKED_MARK + press.compress(data) + press.flush()
    return packed if len(packed) < len(data) and len(packed) != HASH_BYTES else text


def decompress_body(*values: Any) -> bytes:
    """The text of a stored body, as bytes; a hash stays a hash. Also a function of our SQL.

    A body that cannot be decompressed is returned as it is: the reader can report its number.
    """
    stored: bytes = values[0]
    if not stored.startswith(PACKED_MARK) or len(stored) == HASH_BYTES:
        return stored
    press = zlib.decompressobj(-15, zdict=_ZLIB_DICTIONARY)
    try:
        text = press.decompress(stored[1:])
    except zlib.error:
        return stored
    return text if press.eof else stored


_COLUMN_FIELDS = ("kind", "run", "at")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class EventRow(NamedTuple):
    at: int
    """Microseconds since 1970, UTC."""
    run: str
    kind: str
    body: str | bytes
    """JSON of the other fields; bytes are the hash of a text that was purged."""

    def digest_after(self, previous_digest: bytes) -> bytes:
        hashed = self.body if isinstance(self.body, bytes) else hash_text(self.body.encode())
        return chain_digest(previous_digest, hashed, self.kind, self.run, self.at)


def row_from_event(event: Event) -> EventRow:
    fields: dict[str, Any] = msgspec.to_builtins(event)
    try:
        return _build_row(event, fields)
    except UnicodeEncodeError:
        # Half a surrogate pair, from a cut or hostile text, has no UTF-8. Losing one character is
        # better than a run that cannot be recorded and so cannot continue.
        return _build_row(event, replace_surrogates(fields))


def read_event(seq: int, at: int, run: bytes, kind: bytes, body: bytes) -> Event | UnknownEvent:
    """The event of a row; raises `StoreCorrupt` naming its number when it is damaged."""
    try:
        name = kind.decode()
        return decode_event(name, event_json(at, run.decode(), name, body))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as bad:
        raise StoreCorrupt(
            f"event {seq} of the journal cannot be read ({bad}); {REPAIR_HINT}"
        ) from bad


def event_json(at: int, run: str, kind: str, body: bytes) -> bytes:
    """The event as JSON, assembled again. Raises `ValueError` when the body cannot be one."""
    if not body.startswith(b"{"):
        raise ValueError("its body is not a JSON object")
    head = msgspec.json.encode({"kind": kind, "run": run, "at": from_micros(at)})
    return head if body == b"{}" else head[:-1] + b"," + body[1:]


def to_micros(at: datetime) -> int:
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def from_micros(at: int) -> datetime:
    return _EPOCH + at * _MICROSECOND


def _build_row(event: Event, fields: dict[str, Any]) -> EventRow:
    rest = {name: value for name, value in fields.items() if name not in _COLUMN_FIELDS}
    body = msgspec.json.encode(rest).decode()
    return EventRow(to_micros(event.at), fields["run"].encode().decode(), event.kind, body)
