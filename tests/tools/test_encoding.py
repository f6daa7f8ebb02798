"""What was not edited comes back byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import ToolError
from hermes.tools.files.common import decode_text, printable


@given(st.binary(max_size=60))
def test_whatever_is_text_comes_back_byte_for_byte(data: bytes) -> None:
    decoded = decode_text(data)
    assert decoded is None or decoded.encode(decoded.text) == data


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
def test_an_encoding_and_its_mark_are_kept(codec: str) -> None:
    decoded = decode_text("naïve – “text”\n".encode(codec))
    assert decoded is not None
    assert decoded.text == "naïve – “text”\n"
    assert decoded.encode("neu ü\n") == "neu ü\n".encode(codec)


def test_an_old_code_page_is_read_and_written_as_such() -> None:
    decoded = decode_text("Grüße aus Köln\n".encode("latin-1"))
    assert decoded is not None
    assert decoded.text == "Grüße aus Köln\n"
    assert decoded.encode("schön\n") == "schön\n".encode("latin-1")
    with pytest.raises(ToolError, match="latin-1"):
        decoded.encode("日本")


def test_a_broken_byte_in_real_utf_8_is_kept_and_never_sent() -> None:
    data = "héllo wörld ".encode() + b"\xff\n"
    decoded = decode_text(data)
    assert decoded is not None
    assert decoded.text.startswith("héllo wörld ")
    assert decoded.encode(decoded.text) == data
    assert printable(decoded.text) == "héllo wörld ?\n"


def test_zero_bytes_mean_that_it_is_not_text() -> None:
    assert decode_text(b"\x7fELF\0\0") is None
