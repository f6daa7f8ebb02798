"""One record that nobody foresaw came into the queue: the service falls over it at each start."""

import json

from hermes.gym.dice import Dice
from hermes.gym.parts.afresh import afresh
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Script, Story, Traffic

TEXTS = texts(__file__)

BODY = """\
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


def _all_open(port: int, known: list[str]) -> str:
    return (
        f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /open HTTP/1.0\\r\\n\\r\\n' >&3; "
        f"text=$(timeout 2 cat <&3) && for id in {' '.join(known)}; do "
        'case "$text" in *"\\"$id\\""*) ;; *) echo "no $id"; exit 1 ;; esac; done'
    )


def _kept(received: str) -> str:
    """Wherever it was put: set aside, mended, moved."""
    return (
        f"found=$(grep -rhoFf {received} --exclude={received.rpartition('/')[2]} "
        "/var /srv /opt /root /home /tmp /mnt /etc 2>/dev/null | sort -u | wc -l); "
        f'test "$found" = "$(sort -u {received} | wc -l)"'
    )


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    field = dice.pick(("amount", "price", "net", "value", "rate"))
    queue = f"{place.data}/{dice.pick(('queue', 'incoming', 'spool', 'pending', 'inbox'))}"
    numbers = dice.some(range(1000, 9999), dice.number(6, 12))
    records = {n: {"id": f"{dice.word()}-{n}", field: 2.5, "count": n % 7 + 1} for n in numbers}
    bad, buyer = dice.number(1000, 9999) + 10_000, dice.token(12)
    flaw = dice.pick(("null", '"12,50"', '{"eur": 12}', "[]", '"n/a"'))
    poison = f'{{"id": "{buyer}", "{field}": {flaw}, "count": 1.5}}'
    source = program(
        dice,
        BODY.replace("%%amount%%", field),
        taking=dice.wording(TEXTS["taking"]),
    )
    known = [str(each["id"]) for each in records.values()]
    received = f"{place.data}/received.log"
    files = (
        File(path=place.program, text=source),
        place.settings(port=place.port, queue=queue),
        *(File(path=f"{queue}/{n}.json", text=json.dumps(each)) for n, each in records.items()),
        File(path=received, text="".join(f'"{each}"\n' for each in known)),
        *beside.files,
    )
    healthy = (
        Http(name="it answers", port=place.port, path="/health"),
        Script(name="every good record is open", script=_all_open(place.port, known)),
        Running(name="its unit runs", unit=place.unit),
    )
    return Story(
        hosts=(Host(name=host, files=files, units=(unit(service, place.command), beside.unit)),),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(*healthy, beside.answers),
        symptoms=healthy[:2],
        inject=(
            changes(dice, dice.wording(TEXTS["decoys"]).format(service=service)),
            f"echo '\"{buyer}\"' >> {received}; "
            f"echo '{poison}' > {queue}/.new && mv {queue}/.new {queue}/{bad}.json",
        ),
        cure=afresh(place.unit, place.port),
        collateral=(
            *beside.unharmed,
            Same(name="the list of what came in", path=received, may_grow=True),
            Script(name="nothing that came in was lost", script=_kept(received)),
            Same(name="the program", path=place.program),
            Same(name="its settings", path=place.conf),
        ),
        fault=Fault(
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
            f"mkdir -p {place.data}/aside && mv {queue}/{bad}.json {place.data}/aside/",
            f"systemctl restart {service}",
        ),
        relief=(f"systemctl reset-failed {service}; systemctl restart {service}",),
        shortcut=(f"rm -f {queue}/*; systemctl restart {service}",),
        traffic=(Traffic(port=place.port, paths=("/open", "/health")),),
    )


SCENARIO = Scenario(
    name="service-crashed",
    group="classic",
    summary="a record of an unforeseen shape in the queue ends the service at every start",
    draw=draw,
)
