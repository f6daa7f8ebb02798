"""A name leads to the address where its service lived before it moved."""

import json

from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import SHELF, program
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Script, Story, Traffic, Trigger

TEXTS = texts(__file__)

FRONT = """\
conf = settings(sys.argv[1])

def fetch():
    with socket.create_connection((conf["upstream"], int(conf["upstream_port"])), 1.0) as line:
        line.sendall(b"GET /items HTTP/1.0\\r\\n\\r\\n")
        with line.makefile("rb") as file:
            return json.loads(file.read().partition(b"\\r\\n\\r\\n")[2])["items"]

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    try:
        return 200, {"page": fetch()}
    except (OSError, ValueError) as error:
        log("ERROR", %%failed%%.format(name=conf["upstream"], error=error))
        return 502, {"error": "upstream"}

serve(int(conf["port"]), answer)
"""
SYNC = """\
#!/bin/bash
# Puts /etc/hosts together from {folder}.
cat {folder}/* > /etc/hosts.new && mv /etc/hosts.new /etc/hosts
"""


def draw(dice: Dice) -> Story:
    service, upstream, other = dice.services(3)
    place, back, beside = premises(dice, service), premises(dice, upstream), neighbour(dice, other)
    host, zone = dice.host(), f"{dice.word()}.{dice.pick(('internal', 'lan', 'corp'))}"
    name, spare = f"{upstream}.{zone}", f"{other}.{zone}"
    new, old = (f"127.0.{dice.number(1, 9)}.{last}" for last in dice.some(range(2, 250), 2))
    folder = dice.pick(("/etc/hosts.d", "/etc/names", "/srv/names/hosts.d"))
    ours, tool = f"{folder}/{dice.number(20, 80)}-{upstream}", f"/opt/{dice.word()}/build-hosts"
    base = f"127.0.0.1 localhost {host}\n"
    entry, table = f"{new} {name} {upstream}\n", f"127.0.0.1 {spare}\n"
    item, gone = dice.token(), dice.token()
    still_up = dice.chance(0.5)
    stale = f"{upstream}-old"
    shelf = program(dice, SHELF)
    source = program(dice, FRONT, failed=dice.wording(TEXTS["failed"]))
    files = [
        File(path=place.program, text=source),
        place.settings(port=place.port, upstream=name, upstream_port=back.port),
        File(path=back.program, text=shelf.replace("127.0.0.1", new)),
        back.settings(port=back.port, data=f"{back.data}/items.json"),
        File(path=f"{back.data}/items.json", text=json.dumps([item, dice.word()])),
        File(path=f"{folder}/00-base", text=base),
        File(path=ours, text=entry),
        File(path=f"{folder}/90-more", text=table),
        File(path="/etc/hosts", text=base + entry + table),
        File(path=tool, text=SYNC.format(folder=folder), mode=0o755),
        File(path="/etc/cron.d/names", text=f"*/30 * * * * root {tool}\n"),
        *beside.files,
    ]
    units = [unit(service, place.command), unit(upstream, back.command), beside.unit]
    if still_up:
        program_old, conf_old = f"/opt/{stale}/main.py", f"/etc/{stale}.conf"
        text = f"port=%d\ndata=/var/lib/{stale}/items.json\n" % back.port
        files += [
            File(path=program_old, text=shelf.replace("127.0.0.1", old)),
            File(path=conf_old, text=text),
            File(path=f"/var/lib/{stale}/items.json", text=json.dumps([gone])),
        ]
        units.append(unit(stale, f"/usr/bin/python3 -S {program_old} {conf_old}"))
    page = Http(name="the page has the live items", port=place.port, path="/page", contains=item)
    others = Script(
        name="other names still lead somewhere",
        script=f"getent hosts {spare} && getent hosts {host}",
        contains=spare,
    )
    own = Http(
        name=f"{upstream} answers", port=back.port, path="/items", address=new, contains=item
    )
    return Story(
        hosts=(Host(name=host, files=tuple(files), units=tuple(units)),),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(page, own, others, beside.answers),
        symptoms=(page,),
        inject=(
            changes(dice, dice.wording(TEXTS["told"]).format(name=name)),
            f"sed -i 's/^{new} /{old} /' {ours} && {tool}",
        ),
        cure=(Trigger(cron=tool), Trigger(restart=(place.unit,))),
        collateral=(
            *beside.unharmed,
            others,
            own,
            Running(name=f"{upstream} was left alone", unit=back.unit, undisturbed=True),
            Same(name="the settings of the service", path=place.conf),
            Same(name="the settings of the other", path=back.conf),
            Same(name="the tool", path=tool),
        ),
        fault=Fault(
            component=(ours, "/etc/hosts", name),
            mechanism=(
                "stale",
                "wrong address",
                "old address",
                "resolves",
                "resolution",
                "dns",
                "hosts",
            ),
            value=(old,),
        ),
        reference=(f"sed -i 's/^{old} /{new} /' {ours} && {tool}",),
        relief=(f"sed -i 's/^{old} /{new} /' /etc/hosts",),
        shortcut=(
            f"rm -f {folder}/*; echo '{new} {name}' > {ours}; {tool}; systemctl restart {service}",
        ),
        traffic=(Traffic(port=place.port, paths=("/page", "/health")),),
    )


SCENARIO = Scenario(
    name="dns-wrong",
    group="network",
    summary="a name resolves to the address that its service left",
    draw=draw,
)
