"""An event as a row: kind, run and time have columns of their own, the rest is its body."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event, decode
from hermes.core.events.happening import Unknown
from hermes.memory.chain import hash_text, link
from hermes.memory.faults import MEND

_COLUMNS = ("kind", "run", "at")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Row(NamedTuple):
    at: int
    """Microseconds since 1970, UTC."""
    run: str
    kind: str
    body: str | bytes
    """JSON of the other fields; bytes are the hash of a text that was purged."""

    def link(self, before: bytes) -> bytes:
        hashed = self.body if isinstance(self.body, bytes) else hash_text(self.body.encode())
        return link(before, hashed, self.kind, self.run, self.at)


def row_of(event: Event) -> Row:
    fields: dict[str, Any] = msgspec.to_builtins(event)
    try:
        return _row(event, fields)
    except UnicodeEncodeError:
        # Half a surrogate pair, out of a cut or hostile text, has no UTF-8. Losing one character
        # is better than a run that cannot be written down and so cannot go on.
        return _row(event, _whole(fields))


def read(seq: int, at: int, run: bytes, kind: bytes, body: bytes) -> Event | Unknown:
    """The event of a row; raises `StoreCorrupt` naming its number when it is damaged."""
    try:
        name = kind.decode()
        return decode(name, json_of(at, run.decode(), name, body))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as bad:
        raise StoreCorrupt(f"event {seq} of the journal cannot be read ({bad}); {MEND}") from bad


def json_of(at: int, run: str, kind: str, body: bytes) -> bytes:
    """The event as JSON, put together again. Raises `ValueError` when the body cannot be one."""
    if not body.startswith(b"{"):
        raise ValueError("its body is not a JSON object")
    head = msgspec.json.encode({"kind": kind, "run": run, "at": moment(at)})
    return head if body == b"{}" else head[:-1] + b"," + body[1:]


def micros(at: datetime) -> int:
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def moment(at: int) -> datetime:
    return _EPOCH + at * _MICROSECOND


def _row(event: Event, fields: dict[str, Any]) -> Row:
    rest = {name: value for name, value in fields.items() if name not in _COLUMNS}
    body = msgspec.json.encode(rest).decode()
    return Row(micros(event.at), fields["run"].encode().decode(), event.kind, body)


def _whole(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {_whole(key): _whole(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_whole(inner) for inner in value]
    return value
