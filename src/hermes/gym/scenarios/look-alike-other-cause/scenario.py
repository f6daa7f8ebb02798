"""It says that space has run out, as with a full disk; but its own ceiling is what it met."""

from hermes.gym.dice import Dice
from hermes.gym.parts.compose import with_decoy
from hermes.gym.parts.hands import others_kept, remembered
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import (
    Disk,
    Fault,
    File,
    Host,
    Http,
    Running,
    Same,
    Story,
    Traffic,
    Trigger,
)

TEXTS = texts(__file__)

BODY = """\
conf = settings(sys.argv[1])
numbers = iter(range(1, 1 << 30))

def put():
    name = f"new-{next(numbers)}.rec"
    sizes = [entry.stat().st_size for entry in os.scandir(conf["store"])]
    used, most = round(sum(sizes) / (1 << 20), 1), float(conf["%%key%%"])
    if used >= most:
        log("ERROR", %%full%%.format(name=name, used=used, most=conf["%%key%%"]))
        return 507, {"error": "no space left"}
    with open(f"{conf['incoming']}/{name}", "w") as file:
        file.write(conf["mark"])
    os.unlink(file.name)
    return 200, {"stored": conf["mark"]}

def answer(path):
    if path == "/put":
        return put()
    return 200, {"status": "ok"}

serve(int(conf["port"]), answer)
"""


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    disk, mark = dice.pick(("/data", "/srv/store", "/mnt/vol", "/var/store")), dice.token()
    key = dice.pick(("quota_mb", "max_store_mb", "ceiling_mb", "store_limit_mb", "budget_mb"))
    right, wrong = dice.number(500, 4000), dice.pick((1, 2))
    store, big = f"{disk}/{service}", f"/var/log/{service}-access.log"
    incoming = f"{disk}/incoming"
    own = place.settings(port=place.port, store=store, incoming=incoming, mark=mark, **{key: right})
    files = (
        File(
            path=place.program,
            text=program(dice, BODY.replace("%%key%%", key), full=dice.wording(TEXTS["full"])),
        ),
        own,
        *(
            File(path=f"{store}/{dice.token()}.rec", text=dice.token(64) * 12_000)
            for _ in range(dice.number(4, 6))
        ),
        File(path=big, text=f"GET /put {dice.token()}\n" * 40_000),
        *beside.files,
    )
    stores = Http(name="entries are stored", port=place.port, path="/put", contains=mark)
    story = Story(
        hosts=(
            Host(
                name=host,
                files=files,
                folders=(incoming,),
                disks=(Disk(disk, dice.number(30, 60)),),
                units=(unit(service, place.command), beside.unit),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(stores, Running(name="its unit runs", unit=place.unit), beside.answers),
        symptoms=(stores,),
        inject=(
            changes(dice),
            remembered(dice, f"vi {place.conf}", f"systemctl restart {service}"),
            f"{place.put(key, wrong)} && systemctl restart {service}",
        ),
        cure=(Trigger(restart=(place.unit,)),),
        collateral=(
            *beside.unharmed,
            Same(name="what is stored", path=store),
            Same(name="its log", path=big, may_grow=True),
            Same(name="the program", path=place.program),
            others_kept("its other settings", own, key),
        ),
        fault=Fault(
            component=(place.conf, service, place.conf.rpartition("/")[2]),
            mechanism=("quota", "ceiling", "own limit", "limit", key),
            value=(f"{key}{place.sign}{wrong}", f"{key}={wrong}", key),
        ),
        reference=(place.put(key, right), f"systemctl restart {service}"),
        relief=(f"find /var/tmp /tmp -type f -delete; systemctl restart {service}",),
        shortcut=(f": > {big}; rm -f {store}/*.rec",),
        traffic=(Traffic(port=place.port, paths=("/put", "/health")),),
    )
    return with_decoy(story, dice, TEXTS["decoys"])


SCENARIO = Scenario(
    name="look-alike-other-cause",
    group="judgement",
    summary="looks like a full disk; it is the ceiling that the service sets itself",
    draw=draw,
)
