"""An export of the database that proves itself; see `memory.exported`."""

from collections.abc import Collection, Iterator
from itertools import chain

from hermes.memory.exported import Clean, Stored, line_of
from hermes.memory.postgres.scan import pages
from hermes.memory.postgres.schema import opened


def export_lines(
    url: str, kinds: Collection[str] | None = None, clean: Clean | None = None
) -> Iterator[bytes]:
    """Every event; of those of other kinds than `kinds` only the hash."""
    with opened(url) as connection:
        for stored in chain.from_iterable(pages(connection)):
            at, run, kind, body = stored.row
            plain = body if isinstance(body, bytes) else body.encode()
            row = Stored(
                stored.seq, stored.digest, at, run.encode(), kind.encode(), stored.purged, plain
            )
            yield line_of(row, kinds, clean)
