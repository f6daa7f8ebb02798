"""Vectors made small: eight bits a number to compare exactly, one bit to find candidates fast."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Signs = NDArray[np.uint64]


def read(vector: bytes) -> Floats:
    return np.frombuffer(vector, "<f4")


def shrink(vector: bytes) -> tuple[float, bytes]:
    """A scale and one signed byte a number; the cosine moves by less than 0.005."""
    numbers = read(vector)
    scale = float(np.abs(numbers).max()) / 127 or 1.0
    return scale, np.round(numbers / scale).astype(np.int8).tobytes()


def compare(asked: Floats, scales: Sequence[float], codes: Sequence[bytes]) -> Floats:
    """The products of one vector with many shrunk ones."""
    if not codes:
        return np.zeros(0, np.float32)
    table = np.frombuffer(b"".join(codes), np.int8).reshape(len(codes), -1)
    products: Floats = (table.astype(np.float32) @ asked) * np.array(scales, np.float32)
    return products


def signs(vector: bytes) -> bytes:
    bits = np.packbits(read(vector) > 0)
    return bytes(np.pad(bits, (0, -len(bits) % 8)).tobytes())


def differing(asked: bytes, block: bytes) -> NDArray[np.uint16]:
    """In how many signs each vector of a block differs from the asked one."""
    one = np.frombuffer(asked, np.uint64)
    many = np.frombuffer(block, np.uint64).reshape(-1, len(one))
    each = np.bitwise_count(many ^ one)
    # Column by column: numpy sums short rows three times slower.
    counts: NDArray[np.uint16] = each[:, 0].astype(np.uint16)
    for column in range(1, each.shape[1]):
        counts += each[:, column]
    return counts
