"""Attempts to read, change or leave something outside of what was granted."""

from escapes.attempt import Attempt, python, system_call

OTHER_WAYS_TO_A_FILE = python("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
secret = b"@HOME@/.ssh/id_rsa"
number = 437  # openat2
how = (ctypes.c_uint64 * 3)(0, 0, 0)
fd = libc.syscall(number, AT_FDCWD, secret, how, 24)
if fd >= 0: print(os.read(fd, 1000))
""")

CHANGE_MODE_OUTSIDE = python("""
file = "@OUTSIDE@/canary"
for way in (lambda: os.chmod(file, 0o600), lambda: os.utime(file, (1, 1)),
            lambda: os.truncate(file, 0), lambda: os.setxattr(file, "user.x", b"y")):
    try: way()
    except OSError: pass
""")

SETUID_BY_OPEN = python("""
os.umask(0)
os.close(os.open("left", os.O_CREAT | os.O_WRONLY, 0o4755))
""")

SETUID_BY_TMPFILE = python("""
os.umask(0)
fd = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755)
os.link(f"/proc/self/fd/{fd}", "left", src_dir_fd=os.open("/", 0))
""")

# Only files that were removed: to read a pipe would take something away from somebody.
OTHER_DESCRIPTORS = python("""
for pid in os.listdir("/proc"):
    try: fds = os.listdir(f"/proc/{pid}/fd") if pid.isdigit() else []
    except OSError: continue
    for fd in fds:
        try:
            path = f"/proc/{pid}/fd/{fd}"
            plain = os.stat(path).st_mode & 0o170000 == 0o100000
            if plain and os.readlink(path).endswith("(deleted)"):
                print(os.pread(os.open(path, os.O_RDONLY), 1000, 0))
        except OSError: pass
""")

EVERY_DESCRIPTOR = python("""
for fd in range(3, 256):
    try: print(os.pread(fd, 1000, 0))
    except OSError: pass
""")

ATTEMPTS = [
    Attempt("shadow", "cat /etc/shadow | grep -o '^root:' && echo GOT''AWAY", "root"),
    Attempt("private-key", "cat @HOME@/.ssh/id_rsa"),
    Attempt("settings-of-hermes", "cat @HOME@/.hermes/.env"),
    Attempt("listing-of-the-home", "ls -a @HOME@"),
    Attempt("other-way-to-open", OTHER_WAYS_TO_A_FILE),
    Attempt("symlink-out", "ln -s @HOME@/.ssh/id_rsa link && cat link"),
    Attempt("symlinked-folder-out", "ln -s @HOME@ folder && cat folder/.ssh/id_rsa"),
    Attempt("dots-out", "cat ../home/.ssh/id_rsa ../../../../../..@HOME@/.ssh/id_rsa"),
    Attempt("hard-link-out", "ln @HOME@/.ssh/id_rsa hard && cat hard"),
    Attempt("move-in", "mv @OUTSIDE@/movable stolen && cat stolen"),
    Attempt("move-out", "echo x > mine && mv mine @OUTSIDE@/moved"),
    Attempt("exchange-names", python("os.rename('@OUTSIDE@/movable', 'stolen')")),
    Attempt("write-outside", "echo changed > @OUTSIDE@/canary"),
    Attempt("append-through-a-symlink", "ln -s @OUTSIDE@/canary c && echo changed >> c"),
    Attempt("make-outside", "touch @OUTSIDE@/made"),
    Attempt("remove-outside", "rm -f @OUTSIDE@/canary"),
    Attempt("change-mode-times-and-size-outside", CHANGE_MODE_OUTSIDE),
    Attempt("write-to-etc", "touch /etc/@NAME@ && echo GOT''AWAY", "nobody"),
    Attempt("write-to-usr", "touch /usr/bin/@NAME@ /usr/@NAME@ && echo GOT''AWAY", "nobody"),
    Attempt("write-to-var", "touch /var/lib/@NAME@ && echo GOT''AWAY", "nobody"),
    Attempt("write-to-the-interpreter", "touch @PREFIX@/@NAME@ && echo GOT''AWAY", "nobody"),
    Attempt("write-to-dev-shm-of-the-host", "cat /dev/shm/@NAME@"),
    Attempt(
        "read-the-disk", "[[ $(head -c 16 @DEVICE@ | wc -c) == 16 ]] && echo GOT''AWAY", "nobody"
    ),
    Attempt("make-a-device", "mknod disk b 1 0 && echo GOT''AWAY", "root"),
    Attempt("open-by-handle", system_call(304, 265), "root"),
    Attempt("other-roots", "cat /proc/[0-9]*/root@HOME@/.ssh/id_rsa"),
    Attempt("other-working-folders", "cat /proc/[0-9]*/cwd/.ssh/id_rsa"),
    Attempt("other-descriptors", OTHER_DESCRIPTORS),
    Attempt("inherited-descriptors", EVERY_DESCRIPTOR),
    Attempt("write-to-proc-sys", "echo '|/bin/false' > /proc/sys/kernel/core_pattern", "nobody"),
    Attempt("sysrq", "echo h > /proc/sysrq-trigger && echo GOT''AWAY", "nobody"),
    Attempt("sys", "ls /sys/kernel && echo GOT''AWAY"),
    Attempt("setuid-file-left-behind", "cp /bin/true left && chmod 4755 left"),
    Attempt("setgid-file-left-behind", "cp /bin/true left && chmod 2755 left"),
    Attempt("setuid-file-by-open", SETUID_BY_OPEN),
    Attempt("setuid-file-by-tmpfile", SETUID_BY_TMPFILE),
    Attempt("our-environment", "env; declare -p; cat /proc/self/environ /proc/$PPID/environ"),
    Attempt("environment-of-process-1", "tr '\\0' '\\n' < /proc/1/environ", "nobody"),
    Attempt("environment-of-all-processes", "grep -aho 'CANARY=[a-z0-9]*' /proc/[0-9]*/environ"),
]
