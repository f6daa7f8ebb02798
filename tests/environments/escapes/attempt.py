"""The shape of an attempt to get out, and the few words all of them use.

An attempt got away when its output shows the mark or a secret of the world outside, or when the
world outside was touched. `control` says who can do the same thing without a sandbox: there it
must get away, else the attempt proves nothing.
"""

from dataclasses import dataclass
from typing import Literal

MARK = "GOTAWAY"


@dataclass(frozen=True)
class Attempt:
    name: str
    script: str
    control: Literal["both", "root", "user", "nobody"] = "both"
    timeout: float = 10.0


def python(code: str) -> str:
    """`got_away()` prints the mark, in a way that no echo of the script can."""
    return (
        "@PYTHON@ -I -S - <<'END'\n"
        "import os, sys\n"
        "def got_away(*why): print('GOT' + 'AWAY', *why, flush=True)\n"
        f"{code.strip()}\nEND\n"
    )


def system_call(x86_64: int, aarch64: int, arguments: str = "0, 0, 0, 0, 0") -> str:
    """Gets away if the kernel even looks at the arguments, which are nonsense on purpose."""
    return python(f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
number = {x86_64} if os.uname().machine == "x86_64" else {aarch64}
result = libc.syscall(number, {arguments})
error = ctypes.get_errno()
if result >= 0 or error not in (1, 13, 38): got_away(result, error)
""")
