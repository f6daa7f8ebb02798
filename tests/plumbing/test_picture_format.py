"""Pictures are known by their content, without anything beside the picture, and within limits."""

import io

import pytest
from PIL import Image

from hermes.plumbing.picture_format import PictureRefused, prepare_picture, read_picture
from picture_samples import bomb, picture

KINDS = ("PNG", "JPEG", "WEBP", "GIF")


@pytest.mark.parametrize("kind", KINDS)
def test_kind_and_size_are_read_from_the_content(kind: str) -> None:
    found = read_picture(picture(kind))
    assert (found.media, found.width, found.height) == (f"image/{kind.lower()}", 64, 48)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_still_opens_and_says_nothing_of_the_place(kind: str) -> None:
    original = picture(kind)
    kept = read_picture(original).data
    assert b"a note about the place" not in kept
    with Image.open(io.BytesIO(kept)) as opened, Image.open(io.BytesIO(original)) as before:
        assert opened.convert("RGB").tobytes() == before.convert("RGB").tobytes()
        assert not opened.getexif()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("left", [0.2, 0.6, 0.95])
def test_a_picture_that_is_cut_off_is_refused(kind: str, left: float) -> None:
    whole = picture(kind, (300, 200), noise=True)
    with pytest.raises(PictureRefused, match="cut off"):
        read_picture(whole[: int(len(whole) * left)])


def test_a_bomb_is_refused_before_anything_is_decoded() -> None:
    data = bomb()
    assert len(data) < 1000
    with pytest.raises(PictureRefused, match="30,000 × 30,000 pixels"):
        read_picture(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'<svg xmlns="http://www.w3.org/2000/svg"><script>x</script></svg>', "this is SVG"),
        (b'<?xml version="1.0"?>\n<svg/>', "this is SVG"),
        (b"%PDF-1.7 ...", "PDF"),
        (b"\0\0\0\x18ftypheic", "HEIC"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"BM......", "BMP"),
        (b"", "empty"),
        (b"hello there", "no picture"),
    ],
)
def test_other_files_are_refused_in_plain_words(data: bytes, words: str) -> None:
    with pytest.raises(PictureRefused, match=words):
        read_picture(data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", [b"PK\x03\x04zip", b"%PDF-1.4", b"\n<SCRIPT>alert(1)</SCRIPT>"])
def test_a_file_that_is_two_kinds_at_once_is_refused(kind: str, other: bytes) -> None:
    with pytest.raises(PictureRefused, match="at once"):
        read_picture(picture(kind) + other)


def test_bytes_behind_the_end_are_left_out() -> None:
    assert read_picture(picture() + b"\0" * 50).data == read_picture(picture()).data


def test_a_large_picture_is_made_smaller_and_a_small_one_stays() -> None:
    small = prepare_picture(picture(), max_side_px=1568, max_bytes=1_000_000)
    assert (small.width, small.height) == (64, 48)
    wide = prepare_picture(picture("PNG", (2000, 100)), max_side_px=1568, max_bytes=1_000_000)
    assert (wide.width, wide.height, wide.media) == (1568, 78, "image/png")
    heavy = picture("PNG", (300, 300), noise=True)
    light = prepare_picture(heavy, max_side_px=1568, max_bytes=30_000)
    assert len(light.data) <= 30_000 < len(heavy)
    assert light.media == "image/jpeg"


def test_a_photo_is_turned_as_its_metadata_asks() -> None:
    turned = prepare_picture(
        picture("JPEG", (64, 48), orientation=6), max_side_px=1568, max_bytes=1_000_000
    )
    assert (turned.width, turned.height) == (48, 64)
    with Image.open(io.BytesIO(turned.data)) as opened:
        assert not opened.getexif()


def test_a_picture_whose_data_is_too_short_for_its_size_is_refused() -> None:
    with pytest.raises(PictureRefused, match="damaged"):
        prepare_picture(bomb(side=3_000), max_side_px=1568, max_bytes=1_000_000)
