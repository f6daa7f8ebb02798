"""The monitor rings because its own limit makes no sense; the host and its services are well."""

from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import SHELF, program
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Story, Traffic

TEXTS = texts(__file__)

MONITOR = """\
conf = settings(sys.argv[1])

def disk():
    found = os.statvfs(conf["path"])
    return round(100 * (1 - found.f_bavail / found.f_blocks), 1)

def latency():
    began = time.monotonic()
    socket.create_connection(("127.0.0.1", int(conf["port"])), 2).close()
    return round((time.monotonic() - began) * 1000 + 1, 1)

def files():
    return len(os.listdir(conf["path"]))

look = {"disk": disk, "latency": latency, "files": files}[conf["kind"]]
while True:
    try:
        value = look()
    except OSError as error:
        log("ERROR", str(error))
        value = 0
    if value > float(conf["%%key%%"]):
        log("WARN", %%firing%%.format(what=conf["what"], value=value, limit=conf["%%key%%"]))
    time.sleep(1)
"""
KINDS = {
    "disk": ("disk usage in percent", "0"),
    "latency": ("latency in milliseconds", "0.9"),
    "files": ("number of files", "2"),
}
"""What is measured, and a limit that every host crosses."""


def draw(dice: Dice) -> Story:
    service, other, watch = dice.services(3)
    place, beside, monitor = premises(dice, service), neighbour(dice, other), premises(dice, watch)
    host, item = dice.host(), dice.token()
    kind = dice.pick(tuple(KINDS))
    what, limit = KINDS[kind]
    key = dice.pick(("max", "threshold", "limit", "critical", "alarm_above"))
    data = tuple(
        File(path=f"{place.data}/{name}", text=dice.token(400))
        for name in ("a.dat", "b.dat", "c.dat", "d.dat")
    )
    own = monitor.settings(kind=kind, what=what, path=place.data, port=place.port, **{key: limit})
    files = (
        File(path=place.program, text=program(dice, SHELF)),
        place.settings(port=place.port, data=f"{place.data}/items.json"),
        File(path=f"{place.data}/items.json", text=f'["{item}"]'),
        *data,
        File(
            path=monitor.program,
            text=program(
                dice, MONITOR.replace("%%key%%", key), firing=dice.wording(TEXTS["firing"])
            ),
        ),
        own,
        *beside.files,
    )
    serves = Http(name="the items are served", port=place.port, path="/items", contains=item)
    value = {"disk": "0.3", "latency": "1.1", "files": f"{len(data) + 1}"}[kind]
    facts = {"service": service, "host": host, "port": place.port, "limit": limit}
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                units=(
                    unit(service, place.command),
                    unit(watch, monitor.command),
                    beside.unit,
                ),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P2", what=what, value=value, **facts),
        healthy=(serves, beside.answers),
        symptoms=(serves,),
        inject=(changes(dice, f"new checks for {service} in {watch}"),),
        collateral=(
            *beside.unharmed,
            Running(name="the service was left alone", unit=place.unit, undisturbed=True),
            Running(name="the monitor was left alone", unit=monitor.unit, undisturbed=True),
            Same(name="the data", path=place.data),
            Same(name="all settings", path="/etc"),
            Same(name="the settings of the service", path=place.conf),
            Same(name="the settings of the monitor", path=monitor.conf),
            Same(name="the programs", path="/opt"),
        ),
        fault=Fault(
            component=(monitor.conf, watch, monitor.unit),
            mechanism=("threshold", "false alarm", "limit", "too low", "wrong limit"),
            value=(key, f"{key}{monitor.sign}{limit}"),
        ),
        answer="no-incident",
        relief=(monitor.put(key, "99999"), f"systemctl restart {watch}"),
        shortcut=(f"systemctl restart {service}",),
        traffic=(Traffic(port=place.port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="false-alarm",
    group="judgement",
    summary="the limit of a check is wrong; nothing else is",
    draw=draw,
)
