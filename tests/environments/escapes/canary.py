"""A process outside of the sandbox that others may look into if the kernel lets them."""

import ctypes
import os
import sys
import tempfile
import time

libc = ctypes.CDLL(None, use_errno=True)
secret = ctypes.create_string_buffer(sys.stdin.readline().strip().encode())
libc.prctl(15, b"hermes-canary", 0, 0, 0)
libc.prctl(0x59616D61, ctypes.c_ulong(-1 & (1 << 64) - 1), 0, 0, 0)  # anybody may trace us
kept = tempfile.TemporaryFile()  # noqa: SIM115 - held open as long as we live
kept.write(secret.value)
kept.flush()
os.dup2(kept.fileno(), 5)
sys.stdout.write(f"{ctypes.addressof(secret)}\n")
sys.stdout.flush()
time.sleep(600)
