"""Attempts to reach the network, or a socket of the host."""

from escapes.attempt import Attempt, python, system_call


def make_socket(family: int, kind: str = "1", protocol: int = 0) -> str:
    return python(f"import _socket\n_socket.socket({family}, {kind}, {protocol})\ngot_away()")


def connect(family: str, address: str) -> str:
    return python(
        f"import _socket\ns = _socket.socket({family}, _socket.SOCK_STREAM)\n"
        f"s.connect({address})\ns.send(b'hello')"
    )


SOCKET_BY_ANOTHER_NUMBER = python("""
import ctypes, mmap
if os.uname().machine == "x86_64":
    # socket(AF_INET, SOCK_STREAM, 0) under its number for 32-bit programs
    code = bytes.fromhex("53b867010000bb02000000b90100000031d2cd805bc3")
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(code)
    result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    if result >= 0: got_away(result)
""")

SOCKET_OF_X32 = python("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if os.uname().machine == "x86_64":
    if libc.syscall(0x40000000 + 41, 2, 1, 0) >= 0: got_away()
""")

RACE_OF_ADDRESSES = python("""
import _socket, _thread, ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
own = f"/tmp/@NAME@.{os.getpid()}"
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.bind(own); server.listen(64)
addresses = [b"\\1\\0" + each.encode() + b"\\0" for each in (own, os.path.abspath("stream"))]
address = ctypes.create_string_buffer(110)
def swap():
    while True:
        for each in addresses: address[: len(each)] = each
_thread.start_new_thread(swap, ())
until = time.monotonic() + 1
while time.monotonic() < until:
    s = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    s.setblocking(False)
    libc.connect(s.fileno(), address, 110)
    s.close()
os.unlink(own)
""")

ATTEMPTS = [
    Attempt("tcp", connect("_socket.AF_INET", "('127.0.0.1', @TCP@)")),
    Attempt("tcp-from-bash", "exec 9<>/dev/tcp/127.0.0.1/@TCP@ && echo hello >&9"),
    Attempt("tcp6", make_socket(10)),
    Attempt(
        "udp",
        python(
            "import _socket\ns = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)\n"
            "s.sendto(b'hello', ('127.0.0.1', @UDP@))"
        ),
    ),
    Attempt("udp-from-bash", "echo hello >/dev/udp/127.0.0.1/@UDP@"),
    Attempt(
        "a-question-to-a-name-server",
        python(
            "import _socket\ns = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)\n"
            "q = b'\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7example\\3com\\0\\0\\1\\0\\1'\n"
            "s.connect(('127.0.0.1', @UDP@)); s.send(q)"
        ),
    ),
    Attempt("raw-socket", make_socket(2, "_socket.SOCK_RAW", 1), "root"),
    Attempt("packet-socket", make_socket(17, "_socket.SOCK_RAW", 0x0300), "root"),
    Attempt("netlink", make_socket(16, "_socket.SOCK_RAW")),
    Attempt("audit-netlink", make_socket(16, "_socket.SOCK_RAW", 9), "nobody"),
    Attempt("vsock", make_socket(40), "nobody"),
    Attempt("kernel-crypto-socket", make_socket(38, "5"), "nobody"),
    Attempt("bluetooth", make_socket(31, "_socket.SOCK_RAW"), "nobody"),
    Attempt("sctp", make_socket(2, "5", 132), "nobody"),
    Attempt("abstract-socket", connect("_socket.AF_UNIX", "'\\0@ABSTRACT@'")),
    Attempt("named-socket", connect("_socket.AF_UNIX", "'@OUTSIDE@/stream'")),
    Attempt(
        "datagram-from-a-pair-to-a-named-socket",
        python(
            "import _socket\na, b = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_DGRAM)\n"
            "a.sendto(b'hello', '@OUTSIDE@/datagram')"
        ),
    ),
    Attempt("socket-in-the-working-folder", connect("_socket.AF_UNIX", "'stream'")),
    Attempt(
        "socket-in-the-working-folder-behind-a-link",
        python(
            "import _socket\nos.symlink(os.path.abspath('stream'), '/tmp/@NAME@')\n"
            "s = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)\n"
            "try: s.connect('/tmp/@NAME@')\nfinally: os.unlink('/tmp/@NAME@')"
        ),
    ),
    Attempt("socket-in-the-working-folder-by-a-race", RACE_OF_ADDRESSES),
    Attempt("socket-in-a-readable-folder", connect("_socket.AF_UNIX", "'@SHOWN@/stream'")),
    Attempt(
        "datagram-to-the-working-folder",
        python(
            "import _socket\ns = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)\n"
            "s.sendto(b'hello', 'datagram')"
        ),
    ),
    Attempt(
        "datagram-from-a-pair-to-the-working-folder",
        python(
            "import _socket\na, b = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_DGRAM)\n"
            "a.sendto(b'hello', 'datagram')"
        ),
    ),
    Attempt("socket-by-another-number", SOCKET_BY_ANOTHER_NUMBER, "nobody"),
    Attempt("socket-of-x32", SOCKET_OF_X32, "nobody"),
    Attempt("io-uring", system_call(425, 425)),
]
