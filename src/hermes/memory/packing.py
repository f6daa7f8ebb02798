"""Makes the bodies of events small on the disk; hashes and readers only ever see the plain text.

A packed body begins with a byte that no JSON begins with, which also names the dictionary. A blob
of 32 bytes is the hash of a text that was purged, so no packed body is that long.
"""

import zlib
from typing import Any

MARK = b"\x01"
HASH = 32
SMALL = 48
"""Bytes below which packing costs more than it saves."""
_LARGE = 1 << 13

# What stands in nearly every body, the most common last. It is part of the format: files that are
# out there were packed with it, so another one needs another mark.
_DICTIONARY = (
    b"the and that this with from have not for are was you but all can one will error failed "
    b"timeout connection refused exit code service running restart systemctl status docker "
    b"kubectl get pods logs namespace deployment nginx postgres redis /var/log/ /etc/ /usr/bin/ "
    b'.yaml .json .service https:// localhost 127.0.0.1 "status":"error"},"seconds":0.0'
    b'{"process":"","environment":"local","target":"","isolated":true,"cwd":"/'
    b'{"turn":1,"outcome":"answered"}{"id":"","speaker":"","text":"'
    b'{"origin":"cli","task":"","model":"anthropic:claude-openai:gpt-openrouter/'
    b'{"model":"openrouter/","usage":{"input_tokens":1000,"output_tokens":,"cached_tokens":,'
    b'"cost_usd":0.00},"seconds":1.","verdict":"allow","rule":"sandbox","reason":"",'
    b'"effects":["read","hash":"","risk":"change"}"risk":"read"}{"call_id":"call_'
    b'{"call":{"id":"call_","name":"read_file","arguments":{"path":"/'
    b'{"result":{"call_id":"toolu_","content":"","calls":[{"id":"call_","name":"terminal",'
    b'"arguments":{"command":"{"message":{"role":"assistant","text":"'
    b'{"message":{"role":"user","text":"'
)


def pack(text: str) -> str | bytes:
    """The body as it is stored: the text itself where packing would not help."""
    data = text.encode()
    if len(data) < SMALL:
        return text
    # A small window is set up three times as fast, and the chain's digest is the checksum.
    window, memory = (-15, 8) if len(data) > _LARGE else (-13, 6)
    press = zlib.compressobj(1, zlib.DEFLATED, window, memory, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY)
    packed = MARK + press.compress(data) + press.flush()
    return packed if len(packed) < len(data) and len(packed) != HASH else text


def plain(*values: Any) -> bytes:
    """The text of a stored body, as bytes; a hash stays one. Also a function of our SQL.

    What cannot be unpacked is handed on as it is: it is the reader who can name its number.
    """
    stored: bytes = values[0]
    if not stored.startswith(MARK) or len(stored) == HASH:
        return stored
    press = zlib.decompressobj(-15, zdict=_DICTIONARY)
    try:
        text = press.decompress(stored[1:])
    except zlib.error:
        return stored
    return text if press.eof else stored
