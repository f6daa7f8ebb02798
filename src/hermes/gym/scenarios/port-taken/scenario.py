"""Something left over from earlier starts first and sits on the port of the service."""

import json

from hermes.core.messages import Value
from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import SHELF, program
from hermes.gym.parts.premises import PYTHON, alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Story, Traffic, Trigger

TEXTS = texts(__file__)

STRAY = """\
listener = listen(int(sys.argv[1]))
if %%alone%% and os.fork():
    os._exit(0)

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    return 410, {"error": %%gone%%}

serve(0, answer, listener)
"""


class Leftover(Value, kw_only=True, frozen=True):
    """What starts the stray program, and how it is made to do so again, or never."""

    files: tuple[File, ...]
    begin: str
    end: str
    forget: str
    again: tuple[Trigger, ...]
    named: tuple[str, ...]


def _by_cron(name: str, program_file: File, port: int) -> Leftover:
    table, path = f"/etc/cron.d/{name}", program_file.path
    command = f"{PYTHON} {path} {port} >> /var/log/{name}.log 2>&1"
    pids = f"$(grep -ls '[{path[0]}]{path[1:]}' /proc/[0-9]*/cmdline | cut -d/ -f3)"
    return Leftover(
        files=(program_file,),
        begin=f"echo '* * * * * root {command}' > {table}; {command}",
        end=f"kill {pids}",
        forget=f"rm {table}",
        again=(Trigger(cron=name),),
        named=(table, name, "cron"),
    )


def _by_unit(name: str, program_file: File, port: int) -> Leftover:
    own = unit(name, f"{PYTHON} {program_file.path} {port}")
    unit_file = f"/etc/systemd/system/{name}.service"
    waits = (
        f"systemctl is-enabled -q {name} && systemctl restart {name} && for i in $(seq 100); do "
        f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; sleep 0.02; done; true"
    )
    return Leftover(
        files=(program_file, File(path=unit_file, text=own.text)),
        begin=f"systemctl daemon-reload; systemctl enable {name}; {waits}",
        end=f"systemctl stop {name}",
        forget=f"systemctl disable {name}",
        again=(Trigger(script=waits),),
        named=(f"{name}.service", name),
    )


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    item, by_cron = dice.token(), dice.chance(0.5)
    shape = dice.pick(("{}-old", "{}-legacy", "old-{}", "{}-preview", "{}-tmp", "migrate-{}"))
    stray = shape.format(service)
    path = dice.pick(("/opt/{n}/run.py", "/home/www/{n}.py", "/root/{n}/server.py", "/srv/{n}.py"))
    source = program(dice, STRAY, alone=by_cron, gone=dice.wording(TEXTS["gone"]))
    program_file = File(path=path.format(n=stray), text=source)
    left = (_by_cron if by_cron else _by_unit)(stray, program_file, place.port)
    shelf = f"{place.data}/items.json"
    files = (
        File(path=place.program, text=program(dice, SHELF)),
        place.settings(port=place.port, data=shelf),
        File(path=shelf, text=json.dumps([item, dice.word()])),
        File(path="/etc/cron.d/housekeeping", text="7 3 * * 0 root /bin/true\n"),
        *left.files,
        *beside.files,
    )
    serves = Http(name="the right items are served", port=place.port, path="/items", contains=item)
    stop, start = f"systemctl stop {service}", f"systemctl restart {service}"
    return Story(
        hosts=(Host(name=host, files=files, units=(unit(service, place.command), beside.unit)),),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(serves, Running(name="its unit runs", unit=place.unit), beside.answers),
        symptoms=(serves,),
        inject=(
            changes(dice, dice.wording(TEXTS["causes"]).format(service=service)),
            f"{stop}; {left.begin}; {start}",
        ),
        cure=(Trigger(script=stop), *left.again, Trigger(restart=(place.unit,))),
        collateral=(
            *beside.unharmed,
            Same(name="its data", path=place.data),
            Same(name="its settings", path=place.conf),
            Same(name="the other job", path="/etc/cron.d/housekeeping"),
        ),
        fault=Fault(
            component=(*left.named, program_file.path),
            mechanism=(
                "address already in use",
                "port in use",
                "port taken",
                "occupied",
                "holds the port",
            ),
            value=(program_file.path, stray),
        ),
        reference=(f"{left.forget}; {left.end}; {start}",),
        relief=(f"{left.end}; {start}",),
        shortcut=(
            f"{left.forget}; kill -9 $(grep -ls '[p]ython3' /proc/[0-9]*/cmdline | cut -d/ -f3); "
            f"sleep 0.1; {start}",
        ),
        traffic=(Traffic(port=place.port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="port-taken",
    group="process",
    summary="a leftover job or unit starts a stray process that holds the service's port",
    draw=draw,
)
