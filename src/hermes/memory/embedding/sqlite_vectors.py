"""Vectors in tables of their own in an SQLite file, scanned by sign and compared exactly.

Measured against sqlite-vec (int8, full scan) on the same machine: 12 times faster at 100,000.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from hermes.memory.connection import PATIENCE, connect, make_file, use_wal
from hermes.memory.embedding.codes import compare, differing, read, shrink, signs
from hermes.memory.faults import explained

BLOCK = 1024
"""Signs a row: few rows to read, and little to write again when the last one grows."""
OVERSAMPLED = 8
"""Candidates by sign for each neighbour that is wanted; they are then compared exactly."""
FEW = 1000
"""A store of so few vectors is compared exactly as a whole."""
_TABLES = """
    CREATE TABLE IF NOT EXISTS vector_model(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE IF NOT EXISTS vector(
        model INTEGER NOT NULL, seq INTEGER NOT NULL, scale REAL NOT NULL, code BLOB NOT NULL,
        PRIMARY KEY(model, seq)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS vector_block(
        model INTEGER NOT NULL, block INTEGER NOT NULL, seqs BLOB NOT NULL, signs BLOB NOT NULL,
        PRIMARY KEY(model, block)
    );
"""


class SqliteVectors:
    """One connection, for one thread at a time. Every method may raise `StoreError`."""

    def __init__(self, path: Path, *, patience: float = PATIENCE) -> None:
        self._path = path
        with explained(path):
            make_file(path)
            self._connection = connect(path, patience=patience)
            use_wal(self._connection, path, patience)
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(_TABLES)

    def close(self) -> None:
        self._connection.close()

    def keep(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """All of them or none."""
        with explained(self._path), self._connection:
            known = self._model(model, make=True)
            self._connection.executemany(
                "INSERT OR REPLACE INTO vector(model, seq, scale, code) VALUES(?, ?, ?, ?)",
                ((known, seq, *shrink(vector)) for seq, vector in vectors),
            )
            self._extend(known, [(seq, signs(vector)) for seq, vector in vectors])

    def drop(self, seqs: Sequence[int]) -> None:
        """Forget them in every model; their signs stay behind and lead nowhere."""
        with explained(self._path), self._connection:
            self._connection.execute(
                "DELETE FROM vector WHERE seq IN (SELECT value FROM json_each(?))",
                (json.dumps(list(seqs)),),
            )

    def count(self, model: str) -> int:
        with explained(self._path):
            sql = "SELECT count(*) FROM vector WHERE model = ?"
            return int(self._connection.execute(sql, (self._model(model),)).get)

    def nearest(
        self, vector: bytes, model: str, limit: int, among: Iterable[int] | None = None
    ) -> list[tuple[int, float]]:
        """Numbers and cosines, the nearest first; `among` narrows it to those numbers."""
        with explained(self._path):
            found = self._compared(
                vector,
                model,
                list(among) if among is not None else self._alike(vector, model, limit),
            )
        return sorted(found.items(), key=lambda one: (-one[1], one[0]))[:limit]

    def similarities(self, vector: bytes, model: str, seqs: Sequence[int]) -> dict[int, float]:
        with explained(self._path):
            return self._compared(vector, model, seqs)

    def _alike(self, vector: bytes, model: str, limit: int) -> list[int]:
        """Those whose signs differ least."""
        asked = signs(vector)
        seqs: list[bytes] = []
        counts = []
        sql = "SELECT seqs, signs FROM vector_block WHERE model = ?"
        for numbers, block in self._connection.execute(sql, (self._model(model),)):
            seqs.append(numbers)
            counts.append(differing(asked, block))
        if not counts:
            return []
        differ = np.concatenate(counts)
        numbers = np.frombuffer(b"".join(seqs), "<i8")
        if len(numbers) <= FEW:
            return [int(seq) for seq in numbers]
        wanted = min(limit * OVERSAMPLED, len(numbers))
        best = np.argpartition(differ, wanted - 1)[:wanted]
        return [int(seq) for seq in numbers[best]]

    def _compared(self, vector: bytes, model: str, seqs: Sequence[int]) -> dict[int, float]:
        sql = (
            "SELECT seq, scale, code FROM vector WHERE model = ? AND seq IN "
            "(SELECT value FROM json_each(?))"
        )
        asked = (self._model(model), json.dumps(list(seqs)))
        rows = list(self._connection.execute(sql, asked))
        cosines = compare(read(vector), [row[1] for row in rows], [row[2] for row in rows])
        return {row[0]: float(cosine) for row, cosine in zip(rows, cosines, strict=True)}

    def _extend(self, model: int, entries: Sequence[tuple[int, bytes]]) -> None:
        sql = (
            "SELECT block, seqs, signs FROM vector_block WHERE model = ? "
            "ORDER BY block DESC LIMIT 1"
        )
        last: tuple[int, bytes, bytes] | None = self._connection.execute(sql, (model,)).get
        block, numbers, codes = last or (0, b"", b"")
        for seq, code in entries:
            if len(numbers) >= BLOCK * 8:
                self._write_block(model, block, numbers, codes)
                block, numbers, codes = block + 1, b"", b""
            numbers += seq.to_bytes(8, "little", signed=True)
            codes += code
        self._write_block(model, block, numbers, codes)

    def _write_block(self, model: int, block: int, numbers: bytes, codes: bytes) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO vector_block(model, block, seqs, signs) VALUES(?, ?, ?, ?)",
            (model, block, numbers, codes),
        )

    def _model(self, name: str, *, make: bool = False) -> int:
        """The model's number; 0, which nobody has, when it is not known."""
        if make:
            self._connection.execute(
                "INSERT INTO vector_model(name) VALUES(?) ON CONFLICT DO NOTHING", (name,)
            )
        sql = "SELECT id FROM vector_model WHERE name = ?"
        return int(self._connection.execute(sql, (name,)).get or 0)
