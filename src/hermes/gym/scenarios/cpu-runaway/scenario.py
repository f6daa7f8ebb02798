"""The pause between two checks of the inbox was set to 0: the service uses a whole core."""

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

TEXTS = texts(__file__)

SERVICE_PROGRAM = """\
conf = settings(sys.argv[1])
pause = float(conf[%%key%%]) / %%scale%%
inbox, done = conf["inbox"], conf["done"]

def look():
    for name in sorted(os.listdir(inbox)):
        if not name.startswith("."):
            os.replace(f"{inbox}/{name}", f"{done}/{name}")

def poll():
    log("INFO", %%polling%%.format(inbox=inbox, pause=conf[%%key%%]))
    try:
        while True:
            look()
            if pause:
                time.sleep(pause)
    except OSError as error:
        log("ERROR", f"{inbox}: {error.strerror}")

def answer(path):
    return 200, {"status": "ok", "done": len(os.listdir(done))}

threading.Thread(target=poll, daemon=True).start()
serve(int(conf["port"]), answer)
"""


def _idle_script(layout: ServiceLayout) -> str:
    """Checks that the threads of the service neither run nor wait for the processor for long.

    Both times are needed: on a busy machine a busy loop runs less, but waits more.
    """
    return f"""python3 -S - <<'END'
import os, sys, time
def times():
    ran = waited = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"{layout.program}" in open(f"/proc/{{pid}}/cmdline", "rb").read().split(b"\\0"):
                for task in os.listdir(f"/proc/{{pid}}/task"):
                    fields = open(f"/proc/{{pid}}/task/{{task}}/schedstat").read().split()
                    ran, waited = ran + int(fields[0]), waited + int(fields[1])
        except OSError:
            continue
    return ran / 1e9, waited / 1e9
(ran, waited), since = times(), time.monotonic()
time.sleep(0.3)
(after, later), long = times(), time.monotonic() - since
share, wanted = (after - ran) / long, (after - ran + later - waited) / long
print(f"runs {{share:.0%}} of the time, would run {{wanted:.0%}}")
sys.exit(share > 0.03 and wanted > 0.5)
END"""


def _processes_file_script(inbox: str, done: str) -> str:
    return (
        f"cd {inbox} || exit 1; name=check-$RANDOM$RANDOM; echo x > .$name; mv .$name $name; "
        f"for i in $(seq 150); do test -e {done}/$name && rm {done}/$name && exit 0; sleep 0.02; "
        "done; exit 1"
    )


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    unit_of_time = rng.pick(("ms", "s"))
    scale = 1000.0 if unit_of_time == "ms" else 1.0
    name = rng.pick(("poll_interval", "scan_every", "sleep_between", "poll", "refresh"))
    key = f"{name}_{unit_of_time}"
    right = rng.number(40, 120) if unit_of_time == "ms" else rng.number(4, 12) / 100
    wrong = rng.pick(("0", "0.0", "0.000", "00"))
    inbox, done = f"{layout.data}/inbox", f"{layout.data}/done"
    source = render_program(
        rng, SERVICE_PROGRAM, key=key, scale=scale, polling=rng.wording(TEXTS["polling"])
    )
    settings = {key: right, "inbox": inbox, "done": done}
    kept = f"{layout.data}/ledger.txt"
    files = (
        HostFile(path=layout.program, text=source),
        layout.settings(port=layout.port, **settings),
        HostFile(path=kept, text=f"{rng.token()}\n" * rng.number(3, 30)),
        *neighbour.files,
    )
    idles = ScriptCheck(name="it does not burn a core", script=_idle_script(layout))
    takes = ScriptCheck(name="what comes in is taken", script=_processes_file_script(inbox, done))
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                folders=(inbox, done),
                units=(service_unit(service, layout.command), neighbour.unit),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P3", service=service, host=host, port=layout.port),
        healthy=(
            HttpCheck(name="it answers", port=layout.port, path="/health"),
            takes,
            idles,
            UnitRunningCheck(name="its unit runs", unit=layout.unit),
            neighbour.answers,
        ),
        symptoms=(idles,),
        inject=(
            change_log_script(
                rng, rng.wording(TEXTS["causes"]).format(service=service, key=key, old=right)
            ),
            f"{layout.put(key, wrong)} && systemctl restart {service}",
        ),
        cure=(FaultTrigger(restart=(layout.unit,)),),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="its ledger", path=kept),
            UnchangedCheck(name="the program", path=layout.program),
        ),
        fault=FaultDescription(
            component=(layout.conf,),
            mechanism=("busy loop", "busy-loop", "spin", "without pause", "no pause", "polling"),
            value=(f"{key}{layout.sign}{wrong}", key),
        ),
        reference=(f"{layout.put(key, right)} && systemctl restart {service}",),
        relief=(f"systemctl stop {service}",),
        shortcut=(f"rm -rf {layout.data}; sleep 0.1",),
        traffic=(TrafficSpec(port=layout.port, paths=("/health",), pause=0.5),),
    )


SCENARIO = Scenario(
    name="cpu-runaway",
    group="classic",
    summary="a poll interval of zero makes the service spin",
    draw=draw,
)
