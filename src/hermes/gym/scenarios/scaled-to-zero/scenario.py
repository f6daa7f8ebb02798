"""A change set the number of workers to 0: the front end runs, but no work is done."""

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
jobs, ready, crew = [], threading.Condition(), set()
wanted = int(conf[%%key%%])

def labour(number):
    while number < wanted:
        with ready:
            while not jobs and number < wanted:
                ready.wait(0.2)
            job = jobs.pop(0) if jobs else None
        if job:
            job["result"] = job["number"] * len(conf["tariff"])
            job["done"].set()
    crew.discard(number)

def hire():
    for number in range(wanted):
        if number not in crew:
            crew.add(number)
            threading.Thread(target=labour, args=(number,), daemon=True).start()
    log("INFO", %%crew%%.format(count=wanted))

def work(number):
    if not crew:
        log("WARN", %%nobody%%)
        return 503, {"error": %%nobody%%}
    job = {"number": number, "done": threading.Event()}
    with ready:
        jobs.append(job)
        ready.notify()
    if not job["done"].wait(2):
        return 504, {"error": "too late"}
    return 200, {"result": job["result"], "tariff": conf["tariff"]}

def answer(path):
    global wanted
    words = path.strip("/").split("/")
    if words[0] == "work":
        return work(int(words[1]))
    if words[0] == "scale":
        wanted = int(words[1])
        hire()
    return 200, {"status": "ok", "workers": len(crew)}

hire()
serve(int(conf["port"]), answer)
"""


def _min_workers_script(port: int, least: int) -> str:
    return (
        f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /status HTTP/1.0\\r\\n\\r\\n' >&3; "
        "text=$(timeout 2 cat <&3); count=${text##*'\"workers\": '}; count=${count%%[!0-9]*}; "
        f'echo "$count workers"; test "${{count:-0}}" -ge {least}'
    )


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    key = rng.pick(("workers", "replicas", "instances", "concurrency", "min_workers", "processes"))
    right, number = rng.number(2, 9), rng.number(10, 99)
    tariff, standard = f"{rng.word()}-{rng.token(6)}", rng.token(4)
    nobody = rng.wording(TEXTS["nobody"])
    source = render_program(
        rng, SERVICE_PROGRAM, key=key, nobody=nobody, crew=rng.wording(TEXTS["crew"])
    )
    sample = layout.settings(port=layout.port, tariff=standard, **{key: right}).text
    files = (
        HostFile(path=layout.program, text=source),
        layout.settings(port=layout.port, tariff=tariff, **{key: right}),
        HostFile(path=f"{layout.conf}.dist", text=sample),
        *neighbour.files,
    )
    result = f'"result": {number * len(tariff)}, "tariff": "{tariff}"'
    works = HttpCheck(
        name="work is done", port=layout.port, path=f"/work/{number}", contains=result
    )
    enough_workers = ScriptCheck(
        name="there are workers enough", script=_min_workers_script(layout.port, right)
    )
    cause = rng.wording(TEXTS["causes"]).format(service=service, key=key, count=right)
    scale = f"printf 'GET /scale/{right} HTTP/1.0\\r\\n\\r\\n' >&3; timeout 1 cat <&3"
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                units=(service_unit(service, layout.command), neighbour.unit),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(
            works,
            enough_workers,
            UnitRunningCheck(name="its unit runs", unit=layout.unit),
            neighbour.answers,
        ),
        symptoms=(works, enough_workers),
        inject=(
            change_log_script(rng, cause),
            f"{layout.put(key, 0)} && systemctl restart {service}; "
            f"{wait_until_listening_script(layout.port)}",
        ),
        cure=(FaultTrigger(restart=(layout.unit,)),),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="the program", path=layout.program),
            UnchangedCheck(name="the sample", path=f"{layout.conf}.dist"),
        ),
        fault=FaultDescription(
            component=(layout.conf,),
            mechanism=("scaled to zero", "no workers", "zero workers", "0 workers", "scaled down"),
            value=(f"{key}{layout.sign}0", key),
        ),
        reference=(f"{layout.put(key, right)} && systemctl restart {service}",),
        relief=(f"exec 3<>/dev/tcp/127.0.0.1/{layout.port}; {scale}",),
        shortcut=(f"cp {layout.conf}.dist {layout.conf} && systemctl restart {service}",),
        traffic=(TrafficSpec(port=layout.port, paths=(works.path, "/status")),),
    )


SCENARIO = Scenario(
    name="scaled-to-zero",
    group="process",
    summary="the number of workers was changed to zero",
    draw=draw,
)
