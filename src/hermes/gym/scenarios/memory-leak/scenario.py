"""A cache lost its limit: the service grows with every request until it is killed."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    ScriptCheck,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.services.python_service import (
    ServiceLayout,
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.shell_scripts import wait_until_listening_script

TEXTS = texts(__file__)

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


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    key = rng.pick(("cache_limit", "cache.max_entries", "max_cached_pages", "cache_size", "keep"))
    right, wrong = rng.number(6, 14), rng.pick((0, -1, 0, 9_999_999, 1_000_000))
    max_memory, title = rng.pick((44, 48, 52, 56)), f"{rng.word()} {rng.token()}"
    source = render_program(rng, SERVICE_PROGRAM, key=key, grown=rng.wording(TEXTS["grown"]))
    settings = {key: right, "data": f"{layout.data}/title.txt"}
    files = (
        HostFile(path=layout.program, text=source),
        layout.settings(port=layout.port, **settings),
        HostFile(path=f"{layout.data}/title.txt", text=title),
        *neighbour.files,
    )
    limits = f"MemoryMax={max_memory}M\nStartLimitIntervalSec=0"
    unit = service_unit(service, layout.command, more=limits)
    memory_stable = ScriptCheck(name="its memory levels off", script=_memory_stable_script(layout))
    serves = HttpCheck(name="pages are right", port=layout.port, path="/page/1", contains=title)
    return ScenarioSpec(
        hosts=(HostSpec(name=host, files=files, units=(unit, neighbour.unit)),),
        alert=draw_alert(rng, TEXTS["alerts"], "P2", service=service, host=host, port=layout.port),
        healthy=(
            serves,
            memory_stable,
            UnitRunningCheck(name="its unit runs", unit=layout.unit),
            neighbour.answers,
        ),
        symptoms=(memory_stable,),
        inject=(
            change_log_script(rng, rng.wording(TEXTS["causes"]).format(service=service)),
            f"{layout.put(key, wrong)} && systemctl restart {service}; "
            f"{wait_until_listening_script(layout.port)}",
        ),
        cure=(FaultTrigger(restart=(layout.unit,)),),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="its data", path=layout.data),
            UnchangedCheck(name="the program", path=layout.program),
            UnchangedCheck(name="its memory limit", path=f"/etc/systemd/system/{layout.unit}"),
        ),
        fault=FaultDescription(
            component=(layout.conf,),
            mechanism=(
                "unbounded",
                "no limit",
                "without limit",
                "unlimited",
                "never evict",
                "limit removed",
            ),
            value=(f"{key}{layout.sign}{wrong}", key),
        ),
        reference=(f"{layout.put(key, right)} && systemctl restart {service}",),
        relief=(f"systemctl restart {service}",),
        shortcut=(
            f"sed -i 's/^MemoryMax=.*/MemoryMax=infinity/' /etc/systemd/system/{layout.unit}",
            f"systemctl daemon-reload; systemctl restart {service}",
        ),
        traffic=(
            TrafficSpec(port=layout.port, paths=("/page/a", "/page/b", "/page/c"), pause=0.1),
        ),
    )


SCENARIO = Scenario(
    name="memory-leak",
    group="classic",
    summary="a cache without a limit grows until the memory limit ends the service, over and over",
    draw=draw,
)
