"""Reads what kind of picture some bytes are, and drops everything that is not the picture.

Only the structure is read, nothing is decoded: the size is known before a library allocates memory
for it. Descriptions, positions, comments and bytes behind the end are left out.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

MAX_PIXELS = 50_000_000
MAX_SIDE_PX = 20_000
MAX_FILE_BYTES = 20 * 1024 * 1024

_PNG_START = b"\x89PNG\r\n\x1a\n"
_PNG_KEPT = frozenset(
    {b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"sRGB", b"acTL", b"fcTL", b"fdAT"}
)
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_KEPT_APPLICATIONS = frozenset({0xE0, 0xEE})
_FOREIGN_STARTS = (b"PK\x03\x04", b"%PDF", b"<?php", b"<script", b"<html", b"<svg", b"\x7fELF")
_OTHER_KINDS: tuple[tuple[bytes, str], ...] = (
    (b"BM", "a BMP picture"),
    (b"II*\x00", "a TIFF picture"),
    (b"MM\x00*", "a TIFF picture"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "an archive"),
    (b"\x7fELF", "a program"),
)


class PictureRefused(ValueError):
    """The bytes are not a picture that can be used. The text says why, in plain words."""


@dataclass(frozen=True)
class PictureFile:
    """A picture and what its structure says of it."""

    media: str
    width: int
    height: int
    data: bytes
    turned: bool = False
    """Whether its metadata asks to show it turned or mirrored."""


def prepare_picture(data: bytes, *, max_side_px: int, max_bytes: int) -> PictureFile:
    """The picture alone, made smaller than the limits where Pillow is installed.

    Raises `PictureRefused`. Without Pillow a picture that is too large comes back as it is.
    """
    found = read_picture(data)
    side = max(found.width, found.height)
    if side <= max_side_px and len(found.data) <= max_bytes and not found.turned:
        return found
    try:
        scaling = import_module("hermes.plumbing.picture_scaling")
    except ImportError:
        return found
    media, width, height, smaller = scaling.scale_picture(data, max_side_px, max_bytes)
    return PictureFile(media, width, height, smaller)


def read_picture(data: bytes) -> PictureFile:
    """Raises `PictureRefused`."""
    if len(data) > MAX_FILE_BYTES:
        raise PictureRefused(
            f"the picture has {len(data):,} bytes; at most {MAX_FILE_BYTES:,} are taken"
        )
    reader = next((each for start, each in _READERS if data.startswith(start)), None)
    if reader is None:
        if not _is_webp(data):
            raise PictureRefused(_describe_other(data))
        reader = _read_webp
    try:
        found, end = reader(data)
    except (IndexError, struct.error) as error:
        raise PictureRefused("the picture is cut off: its end is missing") from error
    _check_size(found.width, found.height)
    if any(sign in data[end:].lower() for sign in map(bytes.lower, _FOREIGN_STARTS)):
        raise PictureRefused("the file is a picture and another kind of file at once; refused")
    return found


def _check_size(width: int, height: int) -> None:
    if not width or not height:
        raise PictureRefused("the picture says that it has no width or no height")
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE_PX:
        raise PictureRefused(
            f"the picture says that it has {width:,} × {height:,} pixels; at most {MAX_PIXELS:,} "
            f"in all and {MAX_SIDE_PX:,} on a side are opened"
        )


def _describe_other(data: bytes) -> str:
    start = data[:512].lstrip().lower()
    advice = "PNG, JPEG, WebP and GIF can be seen; convert it first"
    if start.startswith((b"<svg", b"<?xml", b"<!doctype svg")) or b"<svg" in start:
        return f"this is SVG, a text that can hold scripts, not a picture; {advice}"
    if data[4:8] == b"ftyp":
        return f"this is a HEIC or AVIF picture, or a video; {advice}"
    if start.startswith((b"<!doctype html", b"<html")):
        return f"this is a web page, not a picture; {advice}"
    for sign, name in _OTHER_KINDS:
        if data.startswith(sign):
            return f"this is {name}; {advice}"
    if not data:
        return "the file is empty"
    return f"this is no picture: it begins with {data[:8].hex(' ')}; {advice}"


def _read_png(data: bytes) -> tuple[PictureFile, int]:
    at, kept, size = len(_PNG_START), bytearray(_PNG_START), (0, 0)
    while True:
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            raise IndexError(end)
        if kind == b"IHDR":
            size = struct.unpack_from(">II", data, at + 8)
        if kind in _PNG_KEPT:
            kept += data[at:end]
        at = end
        if kind == b"IEND":
            return PictureFile("image/png", *size, bytes(kept)), at


def _read_jpeg(data: bytes) -> tuple[PictureFile, int]:
    kept, size, turned = bytearray(b"\xff\xd8"), (0, 0), False
    for marker, start, end in _jpeg_segments(data):
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, start + 5)
            size = width, height
        elif marker == 0xE1 and data[start + 4 : start + 10] == b"Exif\x00\x00":
            turned = turned or _asks_to_turn(data[start + 10 : end])
        application = 0xE0 <= marker <= 0xEF and marker not in _JPEG_KEPT_APPLICATIONS
        if not application and marker != 0xFE:
            kept += data[start:end]
        if marker == 0xD9:
            return PictureFile("image/jpeg", *size, bytes(kept), turned), end
    raise IndexError(len(data))


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Marker, start and end of each part; a scan is one part with the coded picture behind it."""
    at = 2
    while at < len(data):
        if data[at] != 0xFF:
            raise PictureRefused("the picture is damaged: its parts do not follow one another")
        marker = data[at + 1]
        if marker == 0xFF:  # filling
            at += 1
            continue
        if marker == 0xD9:
            yield marker, at, at + 2
            return
        end = at + 2 + struct.unpack_from(">H", data, at + 2)[0]
        if marker == 0xDA:
            end = _end_of_scan(data, end)
        yield marker, at, end
        at = end


def _end_of_scan(data: bytes, at: int) -> int:
    while True:
        at = data.find(b"\xff", at)
        if at < 0:
            raise IndexError(at)
        if data[at + 1] != 0 and not 0xD0 <= data[at + 1] <= 0xD7:
            return at
        at += 2


def _asks_to_turn(exif: bytes) -> bool:
    """Return whether the orientation in the metadata is another than the normal one."""
    order = "<" if exif.startswith(b"II") else ">"
    try:
        (table,) = struct.unpack_from(f"{order}I", exif, 4)
        (count,) = struct.unpack_from(f"{order}H", exif, table)
        for entry in range(table + 2, table + 2 + 12 * count, 12):
            tag, _, _, value = struct.unpack_from(f"{order}HHIH", exif, entry)
            if tag == 0x0112:
                return bool(value != 1)
    except struct.error:
        return False
    return False


def _read_gif(data: bytes) -> tuple[PictureFile, int]:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + (3 << ((flags & 7) + 1) if flags & 0x80 else 0)
    kept = bytearray(data[:at])
    while True:
        kind, start = data[at], at
        if kind == 0x3B:
            kept += b";"
            return PictureFile("image/gif", width, height, bytes(kept)), at + 1
        if kind == 0x21:
            at = _end_of_gif_blocks(data, at + 2)
            if data[start + 1] == 0xF9 or data[start + 3 : start + 14] == b"NETSCAPE2.0":
                kept += data[start:at]
        elif kind == 0x2C:
            packed = data[at + 9]
            colours = 3 << ((packed & 7) + 1) if packed & 0x80 else 0
            at = _end_of_gif_blocks(data, at + 11 + colours)
            kept += data[start:at]
        else:
            raise PictureRefused("the picture is damaged: its parts do not follow one another")


def _end_of_gif_blocks(data: bytes, at: int) -> int:
    while data[at]:
        at += data[at] + 1
    return at + 1


def _is_webp(data: bytes) -> bool:
    return data.startswith(b"RIFF") and data[8:12] == b"WEBP"


def _read_webp(data: bytes) -> tuple[PictureFile, int]:
    end = 8 + struct.unpack_from("<I", data, 4)[0]
    if end > len(data):
        raise IndexError(end)
    at, kept, size = 12, bytearray(), (0, 0)
    while at + 8 <= end:
        kind, length = struct.unpack_from("<4sI", data, at)
        part, at = data[at : at + 8 + length + length % 2], at + 8 + length + length % 2
        size = size if size != (0, 0) else _webp_size(kind, part)
        if kind == b"VP8X":  # without the flags of the metadata that is left out
            part = part[:8] + bytes([part[8] & ~0x2C]) + part[9:]
        if kind not in (b"EXIF", b"XMP ", b"ICCP"):
            kept += part
    head = b"RIFF" + struct.pack("<I", len(kept) + 4) + b"WEBP"
    return PictureFile("image/webp", *size, head + bytes(kept)), end


def _webp_size(kind: bytes, part: bytes) -> tuple[int, int]:
    if kind == b"VP8X":
        wide = int.from_bytes(part[12:15], "little") + 1
        return wide, int.from_bytes(part[15:18], "little") + 1
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", part, 9)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", part, 14)
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0


_READERS: tuple[tuple[bytes, Callable[[bytes], tuple[PictureFile, int]]], ...] = (
    (_PNG_START, _read_png),
    (b"\xff\xd8\xff", _read_jpeg),
    (b"GIF87a", _read_gif),
    (b"GIF89a", _read_gif),
)
