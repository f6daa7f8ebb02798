"""A report asks the dependency for all years at once and holds its table for seconds; the wait
that the dependency was given lately is short, and protects what it writes."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, ScriptCheck, TrafficSpec, UnitRunningCheck
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

ASK = """\
conf = settings(sys.argv[1])

def ask(path, limit):
    with socket.create_connection(("127.0.0.1", int(conf["upstream_port"])), limit) as line:
        line.sendall(f"GET {path} HTTP/1.0\\r\\n\\r\\n".encode())
        return line.makefile("rb").read().partition(b"\\r\\n\\r\\n")[2].decode()

"""
BODY = (
    ASK
    + """\
def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    try:
        return 200, ask("/item", float(conf["timeout"]))
    except OSError:
        log("ERROR", f"timed out after {conf['timeout']} s waiting for {conf['upstream']}")
        return 504, {"error": "upstream"}

serve(int(conf["port"]), answer)
"""
)
REPORT = (
    ASK
    + """\
while True:
    try:
        log("INFO", f"report since {conf['since']}: {len(ask('/sum/' + conf['since'], 60))} bytes")
    except OSError as error:
        log("WARN", f"no report: {error}")
    time.sleep(0.5)
"""
)
STORE = """\
conf = settings(sys.argv[1])
wait, table = int(conf["flush_ms"]), threading.Lock()
if wait < 100:
    log("WARN", f"flush_ms {wait}: writes are not grouped")
    with open(conf["wear"], "a") as file:
        file.write(f"started with flush_ms {wait}\\n")

def answer(path):
    began = time.monotonic()
    with table:
        waited = time.monotonic() - began
        if waited > 0.5:
            log("WARN", f"{path} waited {waited:.1f} s for the table")
        if path.startswith("/sum/"):
            years = 2025 - int(path.rpartition("/")[2])
            time.sleep(0.06 * years)
            log("INFO", f"{path} read {years} years in {0.06 * years:.2f} s")
            return 200, {"years": years}
    time.sleep(wait / 1000)
    return 200, {"item": conf["mark"]}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    store, report, port = f"{service}-store", f"{service}-report", site.rng.port()
    wear, style = f"/var/lib/{store}/wear.log", "{time} {level:5} {text}"
    asked = f"/etc/{report}.conf"
    reconfigure = f"sed -i 's/^since=.*/since={{}}/' {asked}; systemctl restart {report}"
    note = f"# 100 at least: each flush wears out the card of this host\nport={port}\nwear={wear}\n"
    lower = f"sed -i 's/^flush_ms=.*/flush_ms={{}}/' /etc/{store}.conf; systemctl restart {store}"
    return site.look_alike(
        alert="{service} on {host} answers 504, timed out waiting for " + store,
        body=BODY,
        settings={"upstream": store, "upstream_port": port, "timeout": 0.8},
        files=[
            HostFile(path=f"/opt/{store}/main.py", text=fill_program(STORE, style=style)),
            HostFile(path=f"/etc/{store}.conf", text=f"{note}flush_ms=120\nmark={site.token}\n"),
            HostFile(path=wear, text=""),
            HostFile(path=f"/opt/{report}/main.py", text=fill_program(REPORT, style=style)),
            HostFile(path=asked, text=f"upstream_port={port}\nsince=2024\n"),
        ],
        units=[
            service_unit(store, f"{PYTHON_COMMAND} /opt/{store}/main.py /etc/{store}.conf"),
            service_unit(report, f"{PYTHON_COMMAND} /opt/{report}/main.py {asked}"),
        ],
        symptoms=[
            ScriptCheck(
                name="items come in time",
                script="for n in 1 2 3 4 5 6; do exec 3<>/dev/tcp/127.0.0.1/"
                f"{layout.port}; printf 'GET /item HTTP/1.0\\r\\n\\r\\n' >&3; "
                f"timeout 3 cat <&3 | grep -q {site.token} || exit 1; exec 3>&-; sleep 0.3; done",
                timeout=20.0,
            )
        ],
        healthy=[HttpCheck(name="the front answers", port=layout.port, path="/health")],
        inject=[
            f"{lower.format(250)}; echo \"$(date '+%F %T') {store}: flush_ms 120 -> 250\" "
            ">> /var/log/changes.log",
            reconfigure.format(1970),
        ],
        fix=[reconfigure.format(2024), "sleep 4"],
        same=[layout.conf, layout.program, f"/opt/{store}", f"/opt/{report}"],
        collateral=[
            ScriptCheck(name="the card was spared", script=f"test ! -s {wear}"),
            UnitRunningCheck(name="reports are made", unit=f"{report}.service"),
        ],
        keep=[("the settings", f"cat /etc/{store}.conf")],
        traffic=[TrafficSpec(port=layout.port, paths=("/item",))],
        settle=1.0,
        rhythm_s=5.0,
    )
