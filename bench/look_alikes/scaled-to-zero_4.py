"""The autoscaler takes a missing queue figure for an empty queue, because its exporter is
configured with another file; a number of workers that is put back lasts less than a second."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, TrafficSpec, UnitRunningCheck
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

BODY = """\
def answer(path):
    conf = settings(sys.argv[1])
    if path == "/health":
        return 200, {"status": "ok", "workers": int(conf["workers"])}
    if not int(conf["workers"]):
        log("WARN", f"no worker available, workers is {conf['workers']}")
        return 503, {"error": "no worker available"}
    return 200, {"result": conf["mark"], "workers": int(conf["workers"])}

serve(int(settings(sys.argv[1])["port"]), answer)
"""
SCALER = """\
conf = settings(sys.argv[1])
while True:
    try:
        waiting = int(open(conf["figure"]).read())
    except (OSError, ValueError):
        waiting = 0
    now = settings(conf["target"])["workers"]
    wanted = str(-(-waiting // 10))
    if wanted != now:
        log("INFO", f"{waiting} jobs wait by {conf['figure']}: workers {now} -> {wanted}")
        lines = open(conf["target"]).read().splitlines()
        lines = [each[: -len(now)] + wanted if each.startswith("workers") else each
                 for each in lines]
        with open(conf["target"] + ".new", "w") as file:
            file.write("\\n".join(lines) + "\\n")
        os.replace(conf["target"] + ".new", conf["target"])
    time.sleep(0.4)
"""
EXPORTER = """\
conf = settings(sys.argv[1])
while True:
    with open(conf["out"], "w") as file:
        file.write(f"{len(os.listdir(conf['queue'])):8}")
    time.sleep(0.5)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    scaler, exporter = f"{service}-autoscaler", f"{service}-queue-exporter"
    queue, figure = f"/var/spool/{service}", f"/run/{exporter}/waiting"
    reconfigure = f"sed -i 's|^out=.*|out={{}}|' /etc/{exporter}.conf; systemctl restart {exporter}"
    files = [
        HostFile(path=f"/etc/{scaler}.conf", text=f"figure={figure}\ntarget={layout.conf}\n"),
        HostFile(path=f"/etc/{exporter}.conf", text=f"queue={queue}\nout={figure}\n"),
        HostFile(path=figure, text="35\n"),
        *(HostFile(path=f"{queue}/{n:03d}.job", text=f"order {n}\n") for n in range(35)),
    ]
    for name, body in ((scaler, SCALER), (exporter, EXPORTER)):
        text = fill_program(body, style="{time} {level:5} {text}")
        files.append(HostFile(path=f"/opt/{name}/main.py", text=text))
    sample = f"workers{layout.sign}4\n"
    return site.look_alike(
        alert="{service} on {host} answers every request with 503, no worker available",
        body=BODY,
        settings={"mark": site.token, "workers": 4},
        files=[*files, HostFile(path=f"{layout.conf}.dist", text=sample)],
        units=[
            service_unit(name, f"{PYTHON_COMMAND} /opt/{name}/main.py /etc/{name}.conf")
            for name in (exporter, scaler)
        ],
        symptoms=[
            HttpCheck(name="work is done", port=layout.port, path="/work", contains=site.token)
        ],
        inject=[f"{reconfigure.format(f'/run/{exporter}/jobs')}; rm -f {figure}; sleep 1"],
        fix=[reconfigure.format(figure), "sleep 2"],
        same=[
            queue,
            layout.program,
            f"/etc/{scaler}.conf",
            f"{layout.conf}.dist",
            f"/opt/{scaler}",
        ],
        collateral=[
            UnitRunningCheck(
                name="the autoscaler ran on", unit=f"{scaler}.service", undisturbed=True
            )
        ],
        keep=[("the settings", f"cat {layout.conf}")],
        moving=[f"/run/{exporter}", f"{layout.conf}.new"],
        traffic=[TrafficSpec(port=layout.port, paths=("/work",))],
    )
