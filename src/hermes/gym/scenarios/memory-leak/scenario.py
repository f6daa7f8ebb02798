"""A cache lost its limit: the service grows with every request until it is killed."""


from hermes.gym.scenario_builder import (
    ScenarioBuilder,
    ScriptCheck,
    ServiceLayout,
    build_scenario,
    wait_until_listening_script,
)

SERVICE_PROGRAM = """\
conf = settings(sys.argv[1])
limit = int(conf[%%key%%])
cache, lock = {}, threading.Lock()
title = open(conf["data"]).read().strip()
block = (title * 65536).encode()[: 512 << 10]

def page(key):
    with lock:
        if key not in cache:
            cache[key] = bytearray(block)
            if limit > 0 and len(cache) > limit:
                del cache[next(iter(cache))]
            if len(cache) % 16 == 0:
                log("INFO", %%grown%%.format(count=len(cache), size=len(cache) // 2))
    return 200, {"page": key, "title": title}

def answer(path):
    if path == "/health":
        return 200, {"status": "ok", "pid": os.getpid()}
    return page(path)

serve(int(conf["port"]), answer)
"""

PAGES_PER_ROUND = 48
"""Pages of half a megabyte that one round adds to the cache when it has no limit."""


def _memory_stable_script(layout: ServiceLayout) -> str:
    """Requests two rounds of new pages: in the second the memory must hardly grow."""
    return f"""python3 -S - <<'END'
import json, socket, sys, time
def ask(path):
    with socket.create_connection(("127.0.0.1", {layout.port}), 2) as line:
        line.sendall(f"GET {{path}} HTTP/1.0\\r\\n\\r\\n".encode())
        heard = b""
        while piece := line.recv(65536):
            heard += piece
    return json.loads(heard.partition(b"\\r\\n\\r\\n")[2])
def grown():
    stamp = time.time_ns()
    for number in range({PAGES_PER_ROUND}):
        ask(f"/page/{{stamp}}/{{number}}")
    pid = ask("/health")["pid"]
    pages = int(open(f"/proc/{{pid}}/statm").read().split()[1])
    return pid, pages * 4096 >> 20
try:
    (pid, before), (again, after) = grown(), grown()
except (OSError, ValueError) as error:
    sys.exit(f"it does not answer any more: {{error}}")
print(before, after)
sys.exit(pid != again or after - before > {PAGES_PER_ROUND // 4})
END"""


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    key = rng.pick(("cache_limit", "cache.max_entries", "max_cached_pages", "cache_size", "keep"))
    right, wrong = rng.number(6, 14), rng.pick((0, -1, 0, 9_999_999, 1_000_000))
    max_memory, title = rng.pick((44, 48, 52, 56)), f"{rng.word()} {rng.token()}"
    limits = f"MemoryMax={max_memory}M\nStartLimitIntervalSec=0"
    build.start(app, SERVICE_PROGRAM, more=limits, key=key, grown=build.wording("grown"))
    build.settings(app, port=app.port, **{key: right, "data": f"{app.data}/title.txt"})
    build.file(f"{app.data}/title.txt", title)

    build.alert("P2")
    build.healthy(app.http("pages are right", "/page/1", title))
    build.symptoms(ScriptCheck(name="its memory levels off", script=_memory_stable_script(app)))
    build.healthy(app.runs())
    build.inject(
        build.changes(build.wording("causes", service=app.name)),
        f"{app.put_and_restart(key, wrong)}; {wait_until_listening_script(app.port)}",
    )
    build.collateral(
        ("its data", app.data),
        ("the program", app.program),
        ("its memory limit", app.unit_file),
    )
    build.fault(
        component=(app.conf,),
        mechanism="unbounded, no limit, without limit, unlimited, never evict, limit removed",
        value=(f"{key}{app.sign}{wrong}", key),
    )
    build.responses(
        reference=app.put_and_restart(key, right),
        relief=app.restart,
        shortcut=(
            f"sed -i 's/^MemoryMax=.*/MemoryMax=infinity/' {app.unit_file}",
            f"systemctl daemon-reload; {app.restart}",
        ),
    )
    build.traffic("/page/a", "/page/b", "/page/c", pause=0.1)


SCENARIO = build_scenario(
    __file__,
    draw,
    "classic",
    "a cache without a limit grows until the memory limit ends the service, over and over",
)
