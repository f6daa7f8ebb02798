"""No workers run because a batch service took all the seats of the licence; a number of 0 in the
settings means as many as there are processors, and is intended."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, TrafficSpec
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

SEATS = """\
import fcntl

conf = settings(sys.argv[1])
held = []

def take(count):
    for name in sorted(os.listdir(conf["seats"])):
        seat = open(f"{conf['seats']}/{name}")
        try:
            fcntl.flock(seat, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        if len(held) < count:
            held.append(seat)

"""
BODY = (
    SEATS
    + """\
wanted = int(conf["workers"]) or os.cpu_count()
take(wanted)
log("INFO", f"workers={conf['workers']}: {len(held)} of {wanted} workers got a seat")

def answer(path):
    if path == "/health":
        return 200, {"status": "ok", "workers": len(held)}
    if not held:
        take(wanted)
    if not held:
        log("WARN", f"no worker available: all seats in {conf['seats']} are taken")
        return 503, {"error": "no worker available"}
    return 200, {"result": conf["mark"]}

serve(int(conf["port"]), answer)
"""
)
BATCH = (
    SEATS
    + """\
take(int(conf["take"]))
log("INFO", f"batch works with {len(held)} seats")
while True:
    time.sleep(1)
"""
)


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    batch, seats = f"{service}-batch", f"/var/lib/{service}-licence/seats"
    conf, style = f"/etc/{batch}.conf", "{time} {level:5} {text}"
    sample = f"# workers: 0 is one for each processor\nworkers{layout.sign}4\n"
    stop, start = f"systemctl stop {service} {batch}", f"systemctl start {batch}; sleep 1; "
    start += f"systemctl start {service}"
    return site.look_alike(
        alert="{service} on {host} answers every request with 503, no worker available",
        body=BODY,
        settings={"workers": 0, "seats": seats, "mark": site.token},
        files=[
            HostFile(path=f"{layout.conf}.sample", text=sample),
            *(HostFile(path=f"{seats}/{n}", text="seat\n") for n in range(8)),
            HostFile(path=f"/opt/{batch}/main.py", text=fill_program(BATCH, style=style)),
            HostFile(path=conf, text=f"seats={seats}\ntake=1\n"),
        ],
        units=[service_unit(batch, f"{PYTHON_COMMAND} /opt/{batch}/main.py {conf}")],
        symptoms=[
            HttpCheck(name="work is done", port=layout.port, path="/work", contains=site.token)
        ],
        inject=[f"{stop}; sed -i 's/^take=.*/take=8/' {conf}; {start}"],
        fix=[f"{stop}; sed -i 's/^take=.*/take=1/' {conf}; {start}"],
        same=[layout.conf, f"{layout.conf}.sample", seats, layout.program, f"/opt/{batch}"],
        traffic=[TrafficSpec(port=layout.port, paths=("/work",))],
    )
