"""A unit may use less memory than its data needs: the supervisor kills it while it warms up."""

from hermes.gym.dice import Dice
from hermes.gym.parts.hands import remembered, served_by
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Same, Script, Story, Traffic, Trigger

TEXTS = texts(__file__)
UNITS = "/etc/systemd/system"

BODY = """\
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


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    shards = [f"{dice.word()}-{dice.token(4)}" for _ in range(dice.number(6, 8))]
    listed = f"{place.data}/{dice.pick(('shards', 'parts', 'segments'))}.list"
    right, wrong = dice.pick((96, 112, 128, 160)), dice.number(16, 26)
    files = (
        File(path=place.program, text=program(dice, BODY, loading=dice.wording(TEXTS["loading"]))),
        File(path=listed, text="".join(f"{name} {dice.number(5, 6)}\n" for name in shards)),
        place.settings(port=place.port, shards=listed),
        *beside.files,
    )
    own = f"{UNITS}/{place.unit}"
    changed = dice.pick((own, f"{own}.d/{dice.pick(('50-limits', 'override', '10-memory'))}.conf"))
    edit = f"sed -i 's/^MemoryMax=.*/MemoryMax={wrong}M/' {own}"
    if changed != own:
        text = f"[Service]\\nMemoryMax={wrong}M\\n"
        edit = f"mkdir -p {own}.d && printf '{text}' > {changed}"
    answers = Http(
        name="all shards are served", port=place.port, path="/items", contains=shards[-1]
    )
    limit = "# Shared host: every unit keeps a limit.\n"
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                units=(
                    unit(service, place.command, more=f"{limit}MemoryMax={right}M"),
                    beside.unit,
                ),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(
            answers,
            served_by(place.unit, place.port),
            beside.answers,
        ),
        symptoms=(answers,),
        inject=(
            changes(dice),
            remembered(dice, f"vi {changed}", "systemctl daemon-reload"),
            f"{edit} && systemctl daemon-reload && systemctl restart {service} || true",
        ),
        cure=(Trigger(restart=(place.unit,)),),
        collateral=(
            *beside.unharmed,
            Same(name="its data", path=listed),
            Same(name="its settings", path=place.conf),
            Same(name="the program", path=place.program),
            Script(
                name="the unit still has a limit",
                script=f"cat {own} {own}.d/*.conf 2>/dev/null | grep ^MemoryMax= | tail -n 1"
                " | grep -qE '^MemoryMax=[0-9]+[MG]$'",
            ),
        ),
        fault=Fault(
            component=(place.unit, service, changed),
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
            f"sed -i 's/^MemoryMax=.*/MemoryMax=infinity/' {own} {own}.d/*.conf",
            f"systemctl daemon-reload; systemctl reset-failed {service}",
            f"systemctl restart {service}",
        ),
        traffic=(Traffic(port=place.port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="memory-limit-too-low",
    group="limits",
    summary="the memory limit of a unit was lowered below what its data needs",
    draw=draw,
)
