"""A unit may use less memory than its data needs: it is killed while it loads the data."""

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
)
from hermes.gym.services.python_service import (
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.shell_scripts import served_by_unit, shell_history_script

TEXTS = texts(__file__)
UNIT_FOLDER = "/etc/systemd/system"

SERVICE_PROGRAM = """\
conf = settings(sys.argv[1])
shards, names = [], []
for line in open(conf["shards"]):
    name, size = line.split()
    shards.append(bytearray(b"x") * (int(size) << 20))
    names.append(name)
    total = sum(map(len, shards)) >> 20
    log("INFO", %%loading%%.format(name=name, size=size, total=total))
    time.sleep(0.02)

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    return (200, {"shards": names}) if path == "/items" else (404, {"error": "no such page"})

serve(int(conf["port"]), answer)
"""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    shards = [f"{rng.word()}-{rng.token(4)}" for _ in range(rng.number(6, 8))]
    listed = f"{layout.data}/{rng.pick(('shards', 'parts', 'segments'))}.list"
    right, wrong = rng.pick((96, 112, 128, 160)), rng.number(16, 26)
    files = (
        HostFile(
            path=layout.program,
            text=render_program(rng, SERVICE_PROGRAM, loading=rng.wording(TEXTS["loading"])),
        ),
        HostFile(path=listed, text="".join(f"{name} {rng.number(5, 6)}\n" for name in shards)),
        layout.settings(port=layout.port, shards=listed),
        *neighbour.files,
    )
    unit_path = f"{UNIT_FOLDER}/{layout.unit}"
    changed = rng.pick(
        (unit_path, f"{unit_path}.d/{rng.pick(('50-limits', 'override', '10-memory'))}.conf")
    )
    edit = f"sed -i 's/^MemoryMax=.*/MemoryMax={wrong}M/' {unit_path}"
    if changed != unit_path:
        text = f"[Service]\\nMemoryMax={wrong}M\\n"
        edit = f"mkdir -p {unit_path}.d && printf '{text}' > {changed}"
    answers = HttpCheck(
        name="all shards are served", port=layout.port, path="/items", contains=shards[-1]
    )
    limit = "# Shared host: every unit keeps a limit.\n"
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                units=(
                    service_unit(service, layout.command, more=f"{limit}MemoryMax={right}M"),
                    neighbour.unit,
                ),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(
            answers,
            served_by_unit(layout.unit, layout.port),
            neighbour.answers,
        ),
        symptoms=(answers,),
        inject=(
            change_log_script(rng),
            shell_history_script(rng, f"vi {changed}", "systemctl daemon-reload"),
            f"{edit} && systemctl daemon-reload && systemctl restart {service} || true",
        ),
        cure=(FaultTrigger(restart=(layout.unit,)),),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="its data", path=listed),
            UnchangedCheck(name="its settings", path=layout.conf),
            UnchangedCheck(name="the program", path=layout.program),
            ScriptCheck(
                name="the unit still has a limit",
                script=f"cat {unit_path} {unit_path}.d/*.conf 2>/dev/null | grep ^MemoryMax= "
                "| tail -n 1 | grep -qE '^MemoryMax=[0-9]+[MG]$'",
            ),
        ),
        fault=FaultDescription(
            component=(layout.unit, service, changed),
            mechanism=("MemoryMax", "memory limit", "OOM", "out of memory", "oom-kill"),
            value=(f"{wrong}M", f"MemoryMax={wrong}M", f"{wrong} MB"),
        ),
        reference=(
            f"sed -i 's/^MemoryMax=.*/MemoryMax={right}M/' {changed}",
            f"systemctl daemon-reload; systemctl reset-failed {service}",
            f"systemctl restart {service}",
        ),
        relief=(f"systemctl reset-failed {service}; systemctl restart {service}",),
        shortcut=(
            f"sed -i 's/^MemoryMax=.*/MemoryMax=infinity/' {unit_path} {unit_path}.d/*.conf",
            f"systemctl daemon-reload; systemctl reset-failed {service}",
            f"systemctl restart {service}",
        ),
        traffic=(TrafficSpec(port=layout.port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="memory-limit-too-low",
    group="limits",
    summary="the memory limit of a unit was lowered below what its data needs",
    draw=draw,
)
