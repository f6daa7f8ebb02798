"""Small pictures made for tests, well-formed and not."""

import io
import struct
import zlib

from PIL import Image


def picture(
    kind: str = "PNG",
    size: tuple[int, int] = (64, 48),
    *,
    noise: bool = False,
    orientation: int = 0,
) -> bytes:
    """A picture; `noise` cannot be compressed, `orientation` is put into its metadata."""
    if noise:
        image = Image.effect_noise(size, 200).convert("RGB")
    else:
        image = Image.new("RGB", size, (200, 30, 30))
    exif = Image.Exif()
    exif[0x010E] = "a note about the place"
    if orientation:
        exif[0x0112] = orientation
    written = io.BytesIO()
    image.save(written, kind, **({} if kind == "GIF" else {"exif": exif.tobytes()}))
    return written.getvalue()


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb(side: int = 30_000) -> bytes:
    """A PNG of a few bytes that says it has `side` × `side` pixels."""
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(kind, data) for kind, data in parts)
