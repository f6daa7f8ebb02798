"""What rang is over: a short trouble of the surroundings, gone before anybody looked."""

from hermes.core.messages import Value
from hermes.gym.dice import Dice
from hermes.gym.parts.hands import asking
from hermes.gym.parts.microweb import SHELF, program
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Disk, Fault, File, Host, Http, Running, Same, Story, Traffic

TEXTS = texts(__file__)

BODY = """\
conf = settings(sys.argv[1])
numbers = iter(range(1, 1 << 30))

def fetch():
    line = socket.create_connection(("127.0.0.1", int(conf["source_port"])), 0.3)
    with line:
        line.settimeout(0.3)
        line.sendall(b"GET /items HTTP/1.0\\r\\n\\r\\n")
        if b" 200 " not in line.recv(65536):
            raise OSError("bad answer")

def note():
    path = f"{conf['scratch']}/{next(numbers)}.part"
    try:
        with open(path, "wb") as file:
            file.write(b"n" * (1 << 18))
    finally:
        os.unlink(path)

def answer(path):
    if path != "/sum":
        return 200, {"status": "ok"}
    try:
        fetch()
    except OSError as error:
        log("ERROR", %%failed%%.format(why=f"{conf['source']}: {error}"))
        return 502, {"error": "source"}
    try:
        note()
    except OSError as error:
        log("ERROR", %%failed%%.format(why=f"{conf['scratch']}: {error.strerror}"))
        return 500, {"error": "scratch"}
    return 200, {"sum": conf["mark"]}

serve(int(conf["port"]), answer)
"""


class Blip(Value, kw_only=True, frozen=True):
    begin: str
    end: str
    component: tuple[str, ...]
    mechanism: tuple[str, ...]
    value: tuple[str, ...]


def draw(dice: Dice) -> Story:
    service, source, other = dice.services(3)
    place, giver, beside = premises(dice, service), premises(dice, source), neighbour(dice, other)
    host, mark, item = dice.host(), dice.token(), dice.token()
    disk = dice.pick(("/scratch", "/var/tmp/jobs", "/mnt/scratch", "/srv/tmp"))
    export = f"{disk}/{dice.word()}-export.{dice.pick(('csv', 'tar', 'dump'))}"
    pid = f"$(systemctl show -p MainPID --value {source})"
    blip = dice.pick(
        (
            Blip(
                begin=f"kill -STOP {pid}",
                end=f"kill -CONT {pid}",
                component=(source, giver.unit),
                mechanism=("timed out", "timeout", "stalled", "did not answer", "hung"),
                value=(source, "timed out"),
            ),
            Blip(
                begin=f"head -c 60000000 /dev/zero > {export} 2>/dev/null || true",
                end=f"rm {export}",
                component=(disk, export),
                mechanism=("no space left", "disk full", "full"),
                value=(disk, "No space left on device", export),
            ),
        )
    )
    shelf = f"{giver.data}/items.json"
    files = (
        File(path=giver.program, text=program(dice, SHELF)),
        giver.settings(port=giver.port, data=shelf),
        File(path=shelf, text=f'["{item}"]'),
        File(path=place.program, text=program(dice, BODY, failed=dice.wording(TEXTS["failed"]))),
        place.settings(
            port=place.port, source=source, source_port=giver.port, scratch=disk, mark=mark
        ),
        *beside.files,
    )
    serves = Http(name="sums come", port=place.port, path="/sum", contains=mark)
    facts = {"service": service, "host": host, "port": place.port}
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                disks=(Disk(disk, dice.number(8, 20)),),
                units=(
                    unit(source, giver.command),
                    unit(service, place.command, after=giver.unit),
                    beside.unit,
                ),
            ),
        ),
        alert=alert(
            dice,
            TEXTS["alerts"],
            "P1",
            share=dice.number(12, 70),
            count=dice.number(20, 400),
            **facts,
        ),
        healthy=(serves, beside.answers),
        symptoms=(serves,),
        inject=(
            changes(dice),
            blip.begin,
            asking(place.port, "/sum", dice.number(2, 3)),
            blip.end,
            asking(place.port, "/sum", dice.number(4, 8)),
        ),
        collateral=(
            *beside.unharmed,
            Running(name="the service was left alone", unit=place.unit, undisturbed=True),
            Running(name="its source was left alone", unit=giver.unit, undisturbed=True),
            Same(name="the settings of the service", path=place.conf),
            Same(name="the settings of its source", path=giver.conf),
            Same(name="the data of its source", path=giver.data),
            Same(name="all other settings", path="/etc"),
        ),
        fault=Fault(component=blip.component, mechanism=blip.mechanism, value=blip.value),
        answer="recovered",
        relief=(f"systemctl restart {source}",),
        shortcut=(f"systemctl restart {service}",),
        traffic=(Traffic(port=place.port, paths=("/sum", "/health")),),
    )


SCENARIO = Scenario(
    name="already-recovered",
    group="judgement",
    summary="a short trouble that was over before the alert was read",
    draw=draw,
)
