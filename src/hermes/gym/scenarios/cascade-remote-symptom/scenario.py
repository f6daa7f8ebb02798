"""A page fails because its upstream fails, and that because its own upstream became slow."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.scenarios.combine import add_decoy
from hermes.gym.services.python_service import (
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.shell_scripts import other_settings_unchanged

TEXTS = texts(__file__)

INTERMEDIATE_PROGRAM = """\
conf = settings(sys.argv[1])
limit = float(conf["timeout"])

def fetch():
    with socket.create_connection(("127.0.0.1", int(conf["upstream_port"])), limit) as line:
        line.settimeout(limit)
        line.sendall(b"GET /data HTTP/1.0\\r\\n\\r\\n")
        head, _, body = line.makefile("rb").read().partition(b"\\r\\n\\r\\n")
        return int(head.split()[1]), json.loads(body)

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    try:
        status, body = fetch()
    except (OSError, IndexError, ValueError):
        log("ERROR", %%waited%%.format(upstream=conf["upstream"], limit=limit))
        return 504, {"error": "upstream"}
    return status, body

serve(int(conf["port"]), answer)
"""

BACKEND_PROGRAM = """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    time.sleep(float(conf["%%key%%"]) / 1000)
    return 200, {"data": conf["mark"]}

serve(int(conf["port"]), answer)
"""


def draw(rng: RandomSource) -> ScenarioSpec:
    names = rng.services(4)
    front, middle, last = (draw_layout(rng, name) for name in names[:3])
    neighbour, host, mark = draw_neighbour(rng, names[3]), rng.host(), rng.token()
    key = rng.pick(("sync_ms", "write_delay_ms", "scan_ms", "poll_ms", "flush_ms"))
    right, wrong = rng.number(0, 3), rng.number(1500, 9000)
    slow_text = rng.wording(TEXTS["waited"])
    settings_file = last.settings(
        port=last.port, mark=mark, rows=rng.number(100, 999), **{key: right}
    )
    files = (
        HostFile(
            path=front.program, text=render_program(rng, INTERMEDIATE_PROGRAM, waited=slow_text)
        ),
        front.settings(
            port=front.port, upstream=middle.name, upstream_port=middle.port, timeout=0.7
        ),
        HostFile(
            path=middle.program, text=render_program(rng, INTERMEDIATE_PROGRAM, waited=slow_text)
        ),
        middle.settings(port=middle.port, upstream=last.name, upstream_port=last.port, timeout=0.5),
        HostFile(
            path=last.program, text=render_program(rng, BACKEND_PROGRAM.replace("%%key%%", key))
        ),
        settings_file,
        *neighbour.files,
    )
    serves = HttpCheck(name="the page comes", port=front.port, path="/page", contains=mark)
    spec = ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                units=(
                    *(service_unit(each.name, each.command) for each in (last, middle, front)),
                    neighbour.unit,
                ),
            ),
        ),
        alert=draw_alert(
            rng, TEXTS["alerts"], "P1", service=front.name, host=host, port=front.port
        ),
        healthy=(
            serves,
            UnitRunningCheck(name="the last one runs", unit=last.unit),
            neighbour.answers,
        ),
        symptoms=(serves,),
        inject=(
            change_log_script(rng, f"{front.name} restyled, new logo"),
            f"{last.put(key, wrong)} && systemctl restart {last.name}",
        ),
        cure=(FaultTrigger(restart=(last.unit,)),),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="the settings of the first", path=front.conf),
            UnchangedCheck(name="the settings of the second", path=middle.conf),
            UnchangedCheck(name="the program of the first", path=front.program),
            UnchangedCheck(name="the program of the second", path=middle.program),
            UnchangedCheck(name="the program of the last", path=last.program),
            other_settings_unchanged("the other settings of the last", settings_file, key),
        ),
        fault=FaultDescription(
            component=(last.name, last.conf, last.unit),
            mechanism=("slow", "delay", "latency", key),
            value=(f"{wrong}", f"{key}{last.sign}{wrong}"),
        ),
        reference=(last.put(key, right), f"systemctl restart {last.name}"),
        relief=(f"systemctl restart {front.name} {middle.name} {last.name}",),
        shortcut=(
            f"{front.put('timeout', 60)}; {middle.put('timeout', 60)}; {last.put(key, 50)}",
            f"systemctl restart {front.name} {middle.name} {last.name}",
        ),
        traffic=(TrafficSpec(port=front.port, paths=("/page", "/health")),),
    )
    return add_decoy(spec, rng, TEXTS["decoys"])


SCENARIO = Scenario(
    name="cascade-remote-symptom",
    group="judgement",
    summary="the symptom is at the front, the cause two services behind it",
    draw=draw,
    held_out=True,
)
