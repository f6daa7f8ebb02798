# ruff: noqa: I001 - kept as it was written
"""A change set the number of workers to none: the front end stands, nobody does the work."""

from hermes.gym.dice import Dice
from hermes.gym.parts.afresh import up
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Script, Story, Traffic, Trigger

TEXTS = texts(__file__)

BODY = """\
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


def _crew(port: int, least: int) -> str:
    return (
        f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /status HTTP/1.0\\r\\n\\r\\n' >&3; "
        "text=$(timeout 2 cat <&3); count=${text##*'\"workers\": '}; count=${count%%[!0-9]*}; "
        f'echo "$count workers"; test "${{count:-0}}" -ge {least}'
    )


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    key = dice.pick(("workers", "replicas", "instances", "concurrency", "min_workers", "processes"))
    right, number = dice.number(2, 9), dice.number(10, 99)
    tariff, standard = f"{dice.word()}-{dice.token(6)}", dice.token(4)
    nobody = dice.wording(TEXTS["nobody"])
    source = program(dice, BODY, key=key, nobody=nobody, crew=dice.wording(TEXTS["crew"]))
    sample = place.settings(port=place.port, tariff=standard, **{key: right}).text
    files = (
        File(path=place.program, text=source),
        place.settings(port=place.port, tariff=tariff, **{key: right}),
        File(path=f"{place.conf}.dist", text=sample),
        *beside.files,
    )
    result = f'"result": {number * len(tariff)}, "tariff": "{tariff}"'
    works = Http(name="work is done", port=place.port, path=f"/work/{number}", contains=result)
    enough = Script(name="there are workers enough", script=_crew(place.port, right))
    told = dice.wording(TEXTS["causes"]).format(service=service, key=key, count=right)
    scale = f"printf 'GET /scale/{right} HTTP/1.0\\r\\n\\r\\n' >&3; timeout 1 cat <&3"
    return Story(
        hosts=(Host(name=host, files=files, units=(unit(service, place.command), beside.unit)),),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(works, enough, Running(name="its unit runs", unit=place.unit), beside.answers),
        symptoms=(works, enough),
        inject=(
            changes(dice, told),
            f"{place.put(key, 0)} && systemctl restart {service}; {up(place.port)}",
        ),
        cure=(Trigger(restart=(place.unit,)),),
        collateral=(
            *beside.unharmed,
            Same(name="the program", path=place.program),
            Same(name="the sample", path=f"{place.conf}.dist"),
        ),
        fault=Fault(
            component=(place.conf,),
            mechanism=("scaled to zero", "no workers", "zero workers", "0 workers", "scaled down"),
            value=(f"{key}{place.sign}0", key),
        ),
        reference=(f"{place.put(key, right)} && systemctl restart {service}",),
        relief=(f"exec 3<>/dev/tcp/127.0.0.1/{place.port}; {scale}",),
        shortcut=(f"cp {place.conf}.dist {place.conf} && systemctl restart {service}",),
        traffic=(Traffic(port=place.port, paths=(works.path, "/status")),),
    )


SCENARIO = Scenario(
    name="scaled-to-zero",
    group="process",
    summary="the number of workers was changed to zero",
    draw=draw,
)
