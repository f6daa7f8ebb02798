"""Attempts on other processes, and to gain rights that were given up."""

from escapes.attempt import Attempt, python, system_call

SEE_THE_CANARY = "[[ $(grep -ls hermes-canary /proc/[0-9]*/comm) ]] && echo GOT''AWAY"

MEMORY_OF_OTHERS = python("""
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) != os.getpid():
        try:
            fd = os.open(f"/proc/{name}/mem", os.O_RDONLY)
            print(os.pread(fd, 64, @ADDRESS@))
        except OSError: pass
""")

READ_WITH_PROCESS_VM = python("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
class Vector(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
here = ctypes.create_string_buffer(64)
mine, theirs = Vector(ctypes.addressof(here), 64), Vector(@ADDRESS@, 64)
libc.process_vm_readv(@PID@, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
print(here.raw)
""")

ATTACH = python("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
if libc.ptrace(0x4206, @PID@, 0, 0) == 0: got_away()
""")

TAKE_A_DESCRIPTOR = python("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
handle = os.pidfd_open(@PID@)
for number in range(3, 10):
    fd = libc.syscall(438, handle, number, 0)
    if fd >= 0: print(os.pread(fd, 1000, 0))
""")

LIMITS_OF_ANOTHER = python("""
import resource
resource.prlimit(@PID@, resource.RLIMIT_NOFILE, (7, 7))
""")

LINE_OF_THE_LAUNCHER = (
    "for f in /proc/1/fd/* /proc/$PPID/fd/*; do readlink $f && echo GOT''AWAY; "
    "echo x 2>/dev/null > $f && echo GOT''AWAY; done"
)

CAPABILITIES = python("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
data = (ctypes.c_uint32 * 6)()
libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), data)
if any(data): got_away(list(data))
""")

GAINABLE_CAPABILITIES = python("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if any(libc.prctl(23, n, 0, 0, 0) == 1 for n in range(41)) and libc.prctl(39, 0, 0, 0, 0) == 0:
    got_away("may be gained again")
""")

TYPE_INTO_A_TERMINAL = python("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if os.fork() == 0:
    os.setsid()
    outer, inner = os.openpty()
    libc.ioctl(inner, 0x540E, 0)
    result = libc.ioctl(inner, ctypes.c_ulong(@REQUEST@), ctypes.byref(ctypes.c_char(b"x")))
    error = ctypes.get_errno()
    if result == 0 or error not in (1, 13): got_away(error)
    os._exit(0)
os.wait()
""")

NEW_NAMESPACE_BY_CLONE = python("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
arm = os.uname().machine != "x86_64"
pid = libc.syscall(220 if arm else 56, 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0: os._exit(0)
if pid > 0: got_away()
""")

NEW_NAMESPACE_BY_CLONE3 = python("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
arguments = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17, 0, 0, 0)
pid = libc.syscall(435, arguments, 64)
if pid == 0: os._exit(0)
if pid > 0: got_away()
""")

ENTER_NAMESPACES = python("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for kind in ("user", "mnt", "net", "pid"):
    try: fd = os.open(f"/proc/@PID@/ns/{kind}", os.O_RDONLY)
    except OSError: continue
    if libc.setns(fd, 0) == 0: got_away(kind)
""")

ATTEMPTS = [
    Attempt("kill-outside", "kill -9 @PID@"),
    Attempt("kill-everything", "kill -9 -1", "nobody"),
    Attempt("signal-by-pidfd", system_call(424, 424, "os.pidfd_open(@PID@), 9, 0, 0")),
    Attempt("see-processes", SEE_THE_CANARY),
    Attempt("memory-of-others", MEMORY_OF_OTHERS),
    Attempt("process-vm-readv", READ_WITH_PROCESS_VM),
    Attempt("ptrace", ATTACH),
    Attempt("take-a-descriptor", TAKE_A_DESCRIPTOR),
    Attempt("limits-of-another", LIMITS_OF_ANOTHER),
    Attempt("priority-of-another", "renice -n 5 -p @PID@"),
    Attempt("line-of-the-launcher", LINE_OF_THE_LAUNCHER, "nobody"),
    Attempt("kill-the-launcher", "kill -9 1; kill -TERM 1; kill -STOP 1", "nobody"),
    Attempt("setuid-program", "[[ $(@TOOLS@/id -u) == $(id -u) ]] || echo GOT''AWAY", "user"),
    Attempt(
        "become-root", python("os.setuid(0)\nos.setgid(0)\nos.setgroups([0])\ngot_away()"), "root"
    ),
    Attempt("capabilities", CAPABILITIES, "root"),
    Attempt("capabilities-to-gain", GAINABLE_CAPABILITIES),
    Attempt("unshare-user", "unshare -U true && echo GOT''AWAY", "root"),
    Attempt("unshare-mounts", "unshare -m true && echo GOT''AWAY", "root"),
    Attempt("clone-namespace", NEW_NAMESPACE_BY_CLONE, "root"),
    Attempt("clone3-namespace", NEW_NAMESPACE_BY_CLONE3, "root"),
    Attempt("enter-namespaces", ENTER_NAMESPACES, "root"),
    Attempt("mount", system_call(165, 40), "root"),
    Attempt("new-mount-interface", system_call(430, 430), "root"),
    Attempt("take-a-mount", system_call(428, 428), "both"),
    Attempt("unmount", system_call(166, 39, "b'/', 2 + 64, 0"), "root"),
    Attempt("chroot", system_call(161, 51, "b'.'"), "root"),
    Attempt("pivot-root", system_call(155, 41), "root"),
    Attempt("bpf", system_call(321, 280, "0, 0, 8"), "root"),
    Attempt("perf-event", system_call(298, 241, "0, 0, -1, -1, 0"), "root"),
    Attempt("keyctl", system_call(250, 219, "0, -3, 0")),
    Attempt("add-key", system_call(248, 217)),
    Attempt("userfaultfd", system_call(323, 282, "-1"), "both"),
    Attempt("kexec", system_call(246, 104, "0, -1, 0, -1"), "nobody"),
    Attempt("load-a-module", system_call(175, 105), "nobody"),
    Attempt("reboot", system_call(169, 142), "root"),
    Attempt("swap", system_call(167, 224), "root"),
    Attempt("set-the-clock", system_call(227, 112), "root"),
    Attempt("host-name", system_call(170, 161, "0, 5"), "root"),
    Attempt("kernel-log", system_call(103, 116, "10, 0, 0"), "root"),
    Attempt("terminal-input", TYPE_INTO_A_TERMINAL.replace("@REQUEST@", "0x5412")),
    Attempt("console-paste", TYPE_INTO_A_TERMINAL.replace("@REQUEST@", "0x541C")),
]
