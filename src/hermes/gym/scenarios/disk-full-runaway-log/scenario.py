"""A service was left on its chattiest log level; its log eats the disk that its orders need."""

import json

from hermes.gym.dice import Dice
from hermes.gym.parts.afresh import up
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import Premises, alert, changes, neighbour, premises
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
    Space,
    Story,
    Traffic,
    Trigger,
)

TEXTS = texts(__file__)

BODY = """\
conf = settings(sys.argv[1])
loud = conf[%%key%%] in ("debug", "trace", "verbose", "all")
lines = [f"{number:06} dump {%%word%%} {number * 7919 % 65521:x}\\n" for number in range(4096)]
noise = "".join(lines * 10)

def dump():
    try:
        with open(conf["log"], "a") as file:
            file.write(noise)
    except OSError:
        pass

def chatter():
    while True:
        dump()
        time.sleep(0.03)

def store(number):
    try:
        with open(f"{conf['orders']}/{number}.json", "w") as file:
            json.dump({"order": number, "at": time.time()}, file)
        with open(conf["audit"], "a") as file:
            file.write(f"{number} accepted\\n")
    except OSError as error:
        log("ERROR", %%full%%.format(number=number, error=error.strerror))
        return 507, {"error": error.strerror}
    return 200, {"stored": number}

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    if loud:
        dump()
    return store(time.time_ns())

with open(conf["log"], "a") as file:
    file.write(f"log level {conf[%%key%%]}\\n")
if loud:
    threading.Thread(target=chatter, daemon=True).start()
serve(int(conf["port"]), answer)
"""


def _orders(place: Premises, count: int) -> str:
    """What users do all day, in half a second; waits for the service to come up first."""
    return f"""python3 -S - <<'END'
import socket, time
def ask():
    with socket.create_connection(("127.0.0.1", {place.port}), 2) as line:
        line.sendall(b"GET /order HTTP/1.0\\r\\n\\r\\n")
        line.recv(4096)
deadline = time.monotonic() + 3
done = 0
while done < {count} and time.monotonic() < deadline:
    try:
        ask()
        done += 1
    except OSError:
        time.sleep(0.02)
END"""


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    size = dice.number(12, 20)
    disk = dice.pick(("/data", "/mnt/data", f"/srv/{service}-store", "/storage", "/var/spool"))
    logs = f"{disk}/{dice.pick(('logs', 'log', f'{service}-logs'))}"
    log, audit = (
        f"{logs}/{service}.log",
        f"{logs}/{dice.pick(('audit', 'accepted', 'evidence'))}.log",
    )
    key = dice.pick(("log_level", "loglevel", "verbosity", "log.level", "logging"))
    quiet, loud = dice.pick(("info", "warning", "error")), dice.pick(("debug", "trace", "verbose"))
    source = program(dice, BODY, key=key, word=dice.word(), full=dice.wording(TEXTS["full"]))
    settings = {key: quiet, "log": log, "orders": f"{disk}/orders", "audit": audit}
    archive = {f"{disk}/archive/{n}.json": n for n in dice.some(range(10_000), 5)}
    files = (
        File(path=place.program, text=source),
        place.settings(port=place.port, **settings),
        File(path=audit, text="".join(f"{n} accepted\n" for n in archive.values())),
        File(path=f"{logs}/{other}.log", text=f"{dice.word()}\n" * dice.number(50, 500)),
        File(path=f"{logs}/README", text=dice.wording(TEXTS["notes"]).format(audit=audit) + "\n"),
        *(File(path=path, text=json.dumps({"order": n})) for path, n in archive.items()),
        *beside.files,
    )
    stores = Http(name="orders are stored", port=place.port, path="/order", contains="stored")
    room = Space(name="there is room on the disk", path=disk, free_mb=size / 2)
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                folders=(f"{disk}/orders",),
                units=(unit(service, place.command), beside.unit),
                disks=(Disk(disk, size),),
            ),
        ),
        alert=alert(
            dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port, disk=disk
        ),
        healthy=(stores, room, Running(name="its unit runs", unit=place.unit), beside.answers),
        symptoms=(stores, room),
        inject=(
            changes(dice, dice.wording(TEXTS["causes"]).format(service=service)),
            f"{place.put(key, loud)} && systemctl restart {service}; {up(place.port)}",
        ),
        cure=(Trigger(restart=(place.unit,)), Trigger(script=_orders(place, size + 10))),
        collateral=(
            *beside.unharmed,
            Same(name="the log that must be kept", path=audit, may_grow=True),
            Same(name="the log of somebody else", path=f"{logs}/{other}.log", may_grow=True),
            Same(name="the archive", path=f"{disk}/archive"),
            Same(name="the program", path=place.program),
        ),
        fault=Fault(
            component=(place.conf, log),
            mechanism=("log level", "verbose", "debug", "logging", "log grows", "runaway log"),
            value=(f"{key}{place.sign}{loud}", loud),
        ),
        reference=(
            f"{place.put(key, quiet)} && systemctl restart {service}",
            f": > {log}",
        ),
        relief=(f": > {log}",),
        shortcut=(f"{place.put(key, quiet)}; rm -rf {logs}/*; systemctl restart {service}",),
        traffic=(Traffic(port=place.port, paths=("/order", "/health")),),
    )


SCENARIO = Scenario(
    name="disk-full-runaway-log",
    group="classic",
    summary="a log level left on its chattiest fills the disk that holds the orders",
    draw=draw,
)
