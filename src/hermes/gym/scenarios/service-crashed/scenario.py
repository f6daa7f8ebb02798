"""The queue holds a record of an unexpected form: the service crashes on it at each start."""

import json

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
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
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.shell_scripts import clean_restart_triggers

TEXTS = texts(__file__)

SERVICE_PROGRAM = """\
conf = settings(sys.argv[1])
queue, totals = conf["queue"], {}

def take(name):
    log("INFO", %%taking%%.format(name=name))
    record = json.load(open(f"{queue}/{name}"))
    totals[record["id"]] = round(record["%%amount%%"] * record["count"], 2)

def look():
    for name in sorted(os.listdir(queue)):
        if name.endswith(".json") and name not in seen:
            seen.add(name)
            take(name)

def watch():
    try:
        while True:
            time.sleep(0.1)
            look()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)

seen = set()
look()
threading.Thread(target=watch, daemon=True).start()

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    return (200, {"open": totals}) if path == "/open" else (404, {"error": "no such page"})

serve(int(conf["port"]), answer)
"""


def _all_open_script(port: int, known: list[str]) -> str:
    return (
        f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /open HTTP/1.0\\r\\n\\r\\n' >&3; "
        f"text=$(timeout 2 cat <&3) && for id in {' '.join(known)}; do "
        'case "$text" in *"\\"$id\\""*) ;; *) echo "no $id"; exit 1 ;; esac; done'
    )


def _records_kept_script(received: str) -> str:
    """All records still exist, in any folder."""
    return (
        f"found=$(grep -rhoFf {received} --exclude={received.rpartition('/')[2]} "
        "/var /srv /opt /root /home /tmp /mnt /etc 2>/dev/null | sort -u | wc -l); "
        f'test "$found" = "$(sort -u {received} | wc -l)"'
    )


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    field = rng.pick(("amount", "price", "net", "value", "rate"))
    queue = f"{layout.data}/{rng.pick(('queue', 'incoming', 'spool', 'pending', 'inbox'))}"
    numbers = rng.some(range(1000, 9999), rng.number(6, 12))
    records = {n: {"id": f"{rng.word()}-{n}", field: 2.5, "count": n % 7 + 1} for n in numbers}
    bad, buyer = rng.number(1000, 9999) + 10_000, rng.token(12)
    flaw = rng.pick(("null", '"12,50"', '{"eur": 12}', "[]", '"n/a"'))
    poison = f'{{"id": "{buyer}", "{field}": {flaw}, "count": 1.5}}'
    source = render_program(
        rng,
        SERVICE_PROGRAM.replace("%%amount%%", field),
        taking=rng.wording(TEXTS["taking"]),
    )
    known = [str(each["id"]) for each in records.values()]
    received = f"{layout.data}/received.log"
    files = (
        HostFile(path=layout.program, text=source),
        layout.settings(port=layout.port, queue=queue),
        *(HostFile(path=f"{queue}/{n}.json", text=json.dumps(each)) for n, each in records.items()),
        HostFile(path=received, text="".join(f'"{each}"\n' for each in known)),
        *neighbour.files,
    )
    healthy = (
        HttpCheck(name="it answers", port=layout.port, path="/health"),
        ScriptCheck(name="every good record is open", script=_all_open_script(layout.port, known)),
        UnitRunningCheck(name="its unit runs", unit=layout.unit),
    )
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                units=(service_unit(service, layout.command), neighbour.unit),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(*healthy, neighbour.answers),
        symptoms=healthy[:2],
        inject=(
            change_log_script(rng, rng.wording(TEXTS["decoys"]).format(service=service)),
            f"echo '\"{buyer}\"' >> {received}; "
            f"echo '{poison}' > {queue}/.new && mv {queue}/.new {queue}/{bad}.json",
        ),
        cure=clean_restart_triggers(layout.unit, layout.port),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="the list of what came in", path=received, may_grow=True),
            ScriptCheck(
                name="nothing that came in was lost", script=_records_kept_script(received)
            ),
            UnchangedCheck(name="the program", path=layout.program),
            UnchangedCheck(name="its settings", path=layout.conf),
        ),
        fault=FaultDescription(
            component=(f"{bad}.json", f"{queue}/{bad}"),
            mechanism=(
                "poison",
                "malformed",
                "invalid record",
                "TypeError",
                "bad record",
                "wrong type",
            ),
            value=(f"{bad}", field),
        ),
        reference=(
            f"mkdir -p {layout.data}/aside && mv {queue}/{bad}.json {layout.data}/aside/",
            f"systemctl restart {service}",
        ),
        relief=(f"systemctl reset-failed {service}; systemctl restart {service}",),
        shortcut=(f"rm -f {queue}/*; systemctl restart {service}",),
        traffic=(TrafficSpec(port=layout.port, paths=("/open", "/health")),),
    )


SCENARIO = Scenario(
    name="service-crashed",
    group="classic",
    summary="a record of an unforeseen shape in the queue ends the service at every start",
    draw=draw,
)
