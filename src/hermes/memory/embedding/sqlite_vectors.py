"""Vectors in SQLite: eight bits per number to compare exactly, one bit to find candidates fast."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TypeVar

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from hermes.memory.journal.sqlite_file import (
    LOCK_TIMEOUT_S,
    connect,
    create_file,
    enable_wal,
    translate_errors,
)
from hermes.memory.search.line_index import ScoredSeq
from hermes.memory.search.line_search import IndexedSearch
from hermes.memory.search.sqlite_index import SqliteLineIndex

FloatVector = NDArray[np.float32]


def decode_vector(vector: bytes) -> FloatVector:
    return np.frombuffer(vector, "<f4")


def quantize(vector: bytes) -> tuple[float, bytes]:
    """A scale and one signed byte per number; the cosine changes by less than 0.005."""
    numbers = decode_vector(vector)
    scale = float(np.abs(numbers).max()) / 127 or 1.0
    return scale, np.round(numbers / scale).astype(np.int8).tobytes()


def dot_products(
    query_vector: FloatVector, scales: Sequence[float], codes: Sequence[bytes]
) -> FloatVector:
    """The products of one vector with many quantized ones."""
    if not codes:
        return np.zeros(0, np.float32)
    table = np.frombuffer(b"".join(codes), np.int8).reshape(len(codes), -1)
    products: FloatVector = (table.astype(np.float32) @ query_vector) * np.array(scales, np.float32)
    return products


def sign_bits(vector: bytes) -> bytes:
    bits = np.packbits(decode_vector(vector) > 0)
    return bytes(np.pad(bits, (0, -len(bits) % 8)).tobytes())


def count_differing_bits(query_signs: bytes, block: bytes) -> NDArray[np.uint16]:
    """In how many signs each vector of a block differs from the given one."""
    one = np.frombuffer(query_signs, np.uint64)
    many = np.frombuffer(block, np.uint64).reshape(-1, len(one))
    each = np.bitwise_count(many ^ one)
    # Column by column: numpy sums short rows three times slower.
    counts: NDArray[np.uint16] = each[:, 0].astype(np.uint16)
    for column in range(1, each.shape[1]):
        counts += each[:, column]
    return counts


SIGNS_PER_BLOCK = 1024
"""Signs per row: few rows to read, and little to write again when the last one grows."""
OVERSAMPLING_FACTOR = 8
"""Candidates by sign for each requested neighbour; they are then compared exactly."""
MAX_EXACT_SCAN_VECTORS = 1000
"""A store of so few vectors is compared exactly as a whole."""
_SCHEMA_SQL = """
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

    def __init__(self, path: Path, *, timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self._path = path
        with translate_errors(path):
            create_file(path)
            self._connection = connect(path, timeout_s=timeout_s)
            enable_wal(self._connection, path, timeout_s)
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(_SCHEMA_SQL)

    def close(self) -> None:
        self._connection.close()

    def store_vectors(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """All of them or none."""
        with translate_errors(self._path), self._connection:
            known = self._model_id(model, make=True)
            self._connection.executemany(
                "INSERT OR REPLACE INTO vector(model, seq, scale, code) VALUES(?, ?, ?, ?)",
                ((known, seq, *quantize(vector)) for seq, vector in vectors),
            )
            self._append_signs(known, [(seq, sign_bits(vector)) for seq, vector in vectors])

    def count(self, model: str) -> int:
        with translate_errors(self._path):
            sql = "SELECT count(*) FROM vector WHERE model = ?"
            return int(self._connection.execute(sql, (self._model_id(model),)).get)

    def stored_seqs(self, model: str, first: int, last: int) -> set[int]:
        with translate_errors(self._path):
            sql = "SELECT seq FROM vector WHERE model = ? AND seq BETWEEN ? AND ?"
            asked = (self._model_id(model), first, last)
            return {seq for (seq,) in self._connection.execute(sql, asked)}

    def nearest(
        self, vector: bytes, model: str, limit: int, among: Iterable[int] | None = None
    ) -> list[ScoredSeq]:
        """Numbers and cosines, the nearest first; `among` limits it to those numbers."""
        with translate_errors(self._path):
            found = self._cosines(
                vector,
                model,
                list(among) if among is not None else self._nearest_by_sign(vector, model, limit),
            )
        best = sorted(found.items(), key=lambda one: (-one[1], one[0]))[:limit]
        return [ScoredSeq(*one) for one in best]

    def similarities(self, vector: bytes, model: str, seqs: Sequence[int]) -> dict[int, float]:
        with translate_errors(self._path):
            return self._cosines(vector, model, seqs)

    def _nearest_by_sign(self, vector: bytes, model: str, limit: int) -> list[int]:
        """Those whose signs differ least."""
        asked = sign_bits(vector)
        seqs: list[bytes] = []
        counts = []
        sql = "SELECT seqs, signs FROM vector_block WHERE model = ?"
        for numbers, block in self._connection.execute(sql, (self._model_id(model),)):
            seqs.append(numbers)
            counts.append(count_differing_bits(asked, block))
        if not counts:
            return []
        differ = np.concatenate(counts)
        numbers = np.frombuffer(b"".join(seqs), "<i8")
        if len(numbers) <= MAX_EXACT_SCAN_VECTORS:
            return [int(seq) for seq in numbers]
        wanted = min(limit * OVERSAMPLING_FACTOR, len(numbers))
        best = np.argpartition(differ, wanted - 1)[:wanted]
        return [int(seq) for seq in numbers[best]]

    def _cosines(self, vector: bytes, model: str, seqs: Sequence[int]) -> dict[int, float]:
        sql = (
            "SELECT seq, scale, code FROM vector WHERE model = ? AND seq IN "
            "(SELECT value FROM json_each(?))"
        )
        asked = (self._model_id(model), json.dumps(list(seqs)))
        rows = list(self._connection.execute(sql, asked))
        cosines = dot_products(
            decode_vector(vector), [row[1] for row in rows], [row[2] for row in rows]
        )
        return {row[0]: float(cosine) for row, cosine in zip(rows, cosines, strict=True)}

    def _append_signs(self, model: int, entries: Sequence[tuple[int, bytes]]) -> None:
        sql = (
            "SELECT block, seqs, signs FROM vector_block WHERE model = ? "
            "ORDER BY block DESC LIMIT 1"
        )
        last: tuple[int, bytes, bytes] | None = self._connection.execute(sql, (model,)).get
        block, numbers, codes = last or (0, b"", b"")
        for seq, code in entries:
            if len(numbers) >= SIGNS_PER_BLOCK * 8:
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

    def _model_id(self, name: str, *, make: bool = False) -> int:
        """The model's number; 0, which no model has, when it is not known."""
        if make:
            self._connection.execute(
                "INSERT INTO vector_model(name) VALUES(?) ON CONFLICT DO NOTHING", (name,)
            )
        sql = "SELECT id FROM vector_model WHERE name = ?"
        return int(self._connection.execute(sql, (name,)).get or 0)


Answer = TypeVar("Answer")


class LineVectors:
    """The vectors of a home's lines; fulfils `search.line_index.VectorStore` and `VectorTarget`.

    They are in a file of their own, since they cost far more to make than the index.
    """

    def __init__(self, search: IndexedSearch, path: Path) -> None:
        self._search = search
        self._vectors = SqliteVectors(path)
        self._lock = Lock()

    async def nearest(
        self, vector: bytes, model: str, *, session: str | None, limit: int
    ) -> Sequence[ScoredSeq]:
        among: list[int] | None = None
        if session is not None:
            among = await self._search.ask(lambda index: index.session_seqs(session))
        return await self._run(lambda vectors: vectors.nearest(vector, model, limit, among))

    async def similarities(
        self, vector: bytes, model: str, seqs: Sequence[int]
    ) -> Mapping[int, float]:
        return await self._run(lambda vectors: vectors.similarities(vector, model, seqs))

    async def count_without_vector(self, model: str) -> int:
        lines: int = await self._search.ask(lambda index: index.count_lines())
        return max(0, lines - await self._run(lambda vectors: vectors.count(model)))

    async def texts_without_vector(
        self, model: str, after: int, limit: int
    ) -> Sequence[tuple[int, str]]:
        found: list[int] = []
        while len(found) < limit:
            seqs: list[int] = await self._search.ask(partial(SqliteLineIndex.seqs_after, seq=after))
            if not seqs:
                break
            stored = partial(SqliteVectors.stored_seqs, model=model, first=seqs[0], last=seqs[-1])
            known = await self._run(stored)
            found += [seq for seq in seqs if seq not in known]
            after = seqs[-1]
        return await self._search.ask(lambda index: index.read_texts(found[:limit]))

    async def store_vectors(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        await self._run(lambda stored: stored.store_vectors(model, vectors))

    def close(self) -> None:
        with self._lock:
            self._vectors.close()

    async def _run(self, work: Callable[[SqliteVectors], Answer]) -> Answer:
        def run() -> Answer:
            with self._lock:
                return work(self._vectors)

        return await anyio.to_thread.run_sync(run)
