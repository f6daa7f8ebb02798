"""Attempts to use more than was allowed. The world of the suite allows 256 MB of memory, 48
processes, 1 second of CPU time, files of 16 MB."""

from escapes.attempt import Attempt, python

MANY_PROCESSES = python("""
import time
alive = []
try:
    for _ in range(90):
        pid = os.fork()
        if pid == 0:
            time.sleep(30); os._exit(0)
        alive.append(pid)
    got_away(len(alive))
finally:
    for pid in alive: os.kill(pid, 9)
""")

MANY_THREADS = python("""
import _thread, time
for _ in range(90): _thread.start_new_thread(time.sleep, (30,))
got_away()
""")

MUCH_MEMORY = python("b = bytearray(400 << 20)\nb[::4096] = b'x' * len(b[::4096])\ngot_away()")

MUCH_SHARED_MEMORY = python("""
import mmap, time
m = mmap.mmap(-1, 400 << 20)
for at in range(0, 400 << 20, 4096): m[at] = 1
time.sleep(0.5)
got_away()
""")

MEMORY_OF_MANY = python("""
import select, time
ready, tell = os.pipe()
pids = []
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        b = bytearray(50 << 20)
        for at in range(0, len(b), 4096): b[at] = 1
        os.write(tell, b"+"); time.sleep(20); os._exit(0)
    pids.append(pid)
deadline, count, alive = time.monotonic() + 60, 0, pids
while count < 8 and len(alive) == 8 and time.monotonic() < deadline:
    if select.select([ready], [], [], 0.05)[0]: count += len(os.read(ready, 8))
    alive = [p for p in pids if os.waitpid(p, os.WNOHANG) == (0, 0)]
if count == 8:
    time.sleep(0.5)
    alive = [p for p in alive if os.waitpid(p, os.WNOHANG) == (0, 0)]
if len(alive) == count == 8: got_away()
for p in alive: os.kill(p, 9)
""")

MEMORY_OF_NO_PROCESS = python("""
kept = []
for _ in range(30):
    fd = os.memfd_create("x")
    for _ in range(15): os.write(fd, bytes(1 << 20))
    kept.append(fd)
got_away()
""")

MUCH_CPU = python("import time\nwhile time.process_time() < 2.5: pass\ngot_away()")

# Two ways to get away from one's parent, session, signals and marks in the environment.
BEAT = "trap '' TERM HUP INT; while :; do date +%N > beat; sleep 0.02; done"
OUTLIVE = (
    f'(setsid bash -c "{BEAT}" >/dev/null 2>&1 </dev/null &)\n'
    f'(env -i PATH="$PATH" setsid -f setsid -f bash -c "{BEAT}") >/dev/null 2>&1 </dev/null\n'
    "sleep 30"
)

ATTEMPTS = [
    Attempt("many-processes", MANY_PROCESSES),
    Attempt("many-threads", MANY_THREADS),
    Attempt("bomb-of-forks", "bomb() { bomb | bomb & }; bomb; sleep 5", "nobody", 1.0),
    Attempt("much-memory", MUCH_MEMORY),
    Attempt("much-shared-memory", MUCH_SHARED_MEMORY),
    Attempt("memory-of-many", MEMORY_OF_MANY),
    Attempt("memory-of-no-process", MEMORY_OF_NO_PROCESS),
    Attempt(
        "full-tmp",
        "for i in {1..4}; do head -c 15M /dev/zero > /tmp/@NAME@$i || exit; done; "
        "echo GOT''AWAY; rm /tmp/@NAME@?",
    ),
    Attempt(
        "full-dev-shm",
        "for i in {1..4}; do head -c 15M /dev/zero > /dev/shm/@NAME@$i || exit; done; "
        "echo GOT''AWAY; rm /dev/shm/@NAME@?",
    ),
    Attempt(
        "large-file",
        "head -c 20M /dev/zero > large; test $(stat -c %s large) -gt 16777216 "
        "&& echo GOT''AWAY; rm large",
    ),
    Attempt("large-hollow-file", "truncate -s 100M large && echo GOT''AWAY; rm -f large"),
    Attempt(
        "many-open-files",
        python("kept = [os.open('/dev/null', 0) for _ in range(1100)]\ngot_away()"),
        "nobody",
    ),
    Attempt("much-cpu", MUCH_CPU),
    Attempt("outlive-the-time-out", OUTLIVE, "nobody", 0.5),
]
