"""Makes pictures smaller with Pillow. It is loaded by name, and only where Pillow is installed."""

import io
import warnings

from PIL import Image, ImageOps, UnidentifiedImageError

from hermes.plumbing.picture_format import MAX_PIXELS, PictureRefused

JPEG_QUALITIES = (85, 70, 50, 30)
SMALLER = 0.7
"""The factor for the next attempt when no quality makes the file small enough."""


def scale_picture(data: bytes, max_side_px: int, max_bytes: int) -> tuple[str, int, int, bytes]:
    """Media type, width, height and bytes of the picture within the limits, without metadata.

    Raises `PictureRefused`.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP", "GIF")) as opened:
                if opened.width * opened.height > MAX_PIXELS:
                    raise PictureRefused("the picture has too many pixels")
                opened.draft("RGB", (max_side_px, max_side_px))
                picture = ImageOps.exif_transpose(opened)
                picture.thumbnail((max_side_px, max_side_px))
    except (UnidentifiedImageError, Image.DecompressionBombWarning) as error:
        raise PictureRefused("the picture cannot be opened") from error
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise PictureRefused(f"the picture is damaged: {error}") from error
    return _encode_within(picture, max_bytes)


def _encode_within(picture: Image.Image, max_bytes: int) -> tuple[str, int, int, bytes]:
    """As PNG while that is small, because text stays sharp; else as JPEG."""
    if picture.mode not in ("RGB", "RGBA", "L"):
        picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
    drawn = _encode(picture, "PNG")
    if len(drawn) <= max_bytes:
        return "image/png", picture.width, picture.height, drawn
    flat = _on_white(picture)
    while True:
        for quality in JPEG_QUALITIES:
            coded = _encode(flat, "JPEG", quality=quality)
            if len(coded) <= max_bytes:
                return "image/jpeg", flat.width, flat.height, coded
        smaller = (max(1, int(flat.width * SMALLER)), max(1, int(flat.height * SMALLER)))
        flat = flat.resize(smaller)


def _encode(picture: Image.Image, kind: str, **options: int) -> bytes:
    bare = picture.copy()
    bare.info = {}
    written = io.BytesIO()
    bare.save(written, kind, **options)
    return written.getvalue()


def _on_white(picture: Image.Image) -> Image.Image:
    if picture.mode != "RGBA":
        return picture.convert("RGB")
    flat = Image.new("RGB", picture.size, "white")
    flat.paste(picture, mask=picture.getchannel("A"))
    return flat
