"""A release went out just before the errors began, and is innocent: what it asks is at fault."""

from hermes.gym.dice import Dice
from hermes.gym.parts.hands import others_kept, remembered
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import PYTHON, alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Story, Traffic, Trigger

TEXTS = texts(__file__)

GIVER = """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    if conf["%%key%%"] != "%%right%%":
        return 503, {"error": f"%%key%% is {conf['%%key%%']}"}
    return 200, {"stock": 12}

serve(int(conf["port"]), answer)
"""

SHOP = """\
conf = settings(sys.argv[1])

def stock():
    line = socket.create_connection(("127.0.0.1", int(conf["upstream_port"])), 2)
    with line:
        line.sendall(b"GET /stock HTTP/1.0\\r\\n\\r\\n")
        return int(line.recv(65536).split()[1])

def answer(path):
    if path == "/version":
        return 200, {"version": %%version%%}
    if path not in %%pages%%:
        return 404, {"error": "no such page"}
    try:
        status = stock()
    except OSError as error:
        status = error.strerror or "timed out"
    if status != 200:
        log("ERROR", %%upstream%%.format(upstream=conf["upstream"], status=status))
        return 502, {"error": "upstream"}
    return 200, {"order": conf["mark"]}

serve(int(conf["port"]), answer)
"""
MODES = (
    ("mode", "live", "maintenance"),
    ("state", "open", "closed"),
    ("accept", "yes", "no"),
    ("role", "primary", "standby"),
    ("serving", "on", "drain"),
)


def draw(dice: Dice) -> Story:
    service, upstream, other = dice.services(3)
    place, giver, beside = premises(dice, service), premises(dice, upstream), neighbour(dice, other)
    host, mark = dice.host(), dice.token()
    key, right, wrong = dice.pick(MODES)
    major, minor = dice.number(2, 9), dice.number(1, 30)
    old, new = f"{major}.{minor}.{dice.number(0, 9)}", f"{major}.{minor + 1}.0"
    root = f"/srv/{service}-releases"
    current, words = f"{root}/current", dice.wording(TEXTS["upstream"])
    template = GIVER.replace("%%key%%", key).replace("%%right%%", right)
    own = giver.settings(port=giver.port, capacity=dice.number(5, 50), **{key: right})

    def release(version: str, *pages: str) -> File:
        text = program(dice, SHOP, version=version, upstream=words, pages=pages)
        return File(path=f"{root}/{version}/app.py", text=text)

    files = (
        File(path=giver.program, text=program(dice, template)),
        own,
        release(old, "/order"),
        release(new, "/order", "/v2/order"),
        File(path=f"{current}/.keep"),
        place.settings(port=place.port, upstream=upstream, upstream_port=giver.port, mark=mark),
        *beside.files,
    )
    # The link is made by the unit's first start: a plan of files knows no links.
    command = (
        f"/bin/sh -c 'test -L {current} || {{ rm -rf {current}; ln -s {root}/{new} {current}; }};"
        f" exec {PYTHON} {current}/app.py {place.conf}'"
    )
    serves = Http(name="orders go through", port=place.port, path="/v2/order", contains=mark)
    edit = giver.put(key, wrong)
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                units=(
                    unit(upstream, giver.command),
                    unit(service, command, after=giver.unit),
                    beside.unit,
                ),
            ),
        ),
        alert=alert(
            dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port, version=new
        ),
        healthy=(
            serves,
            Http(name="the new release is live", port=place.port, path="/version", contains=new),
            Running(name="its unit runs", unit=place.unit),
            beside.answers,
        ),
        symptoms=(serves,),
        inject=(
            changes(
                dice,
                dice.wording(TEXTS["deploys"]).format(service=service, version=new),
                f"{upstream}: planned work, see the calendar",
            ),
            remembered(dice, f"ls -l {root}", edit, f"systemctl restart {upstream}"),
            f"{edit} && systemctl restart {upstream}",
        ),
        cure=(Trigger(restart=(giver.unit, place.unit)),),
        collateral=(
            *beside.unharmed,
            Same(name="the releases and which is current", path=root),
            Same(name="the settings of the service", path=place.conf),
            Same(name="the program of the upstream", path=giver.program),
            others_kept("the other settings of the upstream", own, key),
        ),
        fault=Fault(
            component=(upstream, giver.conf, giver.unit),
            mechanism=(f"{key} is {wrong}", "503", "maintenance", "switched off", "not serving"),
            value=(f"{key}{giver.sign}{wrong}", f"{key}={wrong}", f"{key} is {wrong}"),
        ),
        reference=(giver.put(key, right), f"systemctl restart {upstream}"),
        relief=(f"systemctl restart {upstream}; systemctl restart {service}",),
        shortcut=(
            f"ln -sfn {root}/{old} {current} && systemctl restart {service}",
            f"{giver.put(key, right)}; systemctl restart {upstream}",
        ),
        traffic=(Traffic(port=place.port, paths=("/v2/order", "/version")),),
    )


SCENARIO = Scenario(
    name="red-herring-deploy",
    group="judgement",
    summary="a fresh release is blamed, but the service that it asks was switched off",
    draw=draw,
)
