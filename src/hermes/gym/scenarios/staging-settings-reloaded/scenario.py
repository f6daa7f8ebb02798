"""Production was reloaded with the settings of staging: every answer is well formed and wrong."""

import json

from hermes.gym.dice import Dice
from hermes.gym.parts.hands import remembered, served_by
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import PYTHON, alert, by_hand, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Same, Story, Traffic, Trigger

TEXTS = texts(__file__)

BODY = """\
import signal

items = []

def load(*_):
    global conf
    path = sys.argv[1]
    if "profile" in settings(path):
        path = f"{os.path.dirname(path)}/{settings(path)['profile']}.conf"
    conf = settings(path)
    items[:] = json.load(open(conf["data"]))
    log("INFO", %%reloaded%%.format(path=os.path.realpath(path)))

load()
signal.signal(signal.SIGHUP, load)

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    return (200, {"items": items}) if path == "/items" else (404, {"error": "no such page"})

serve(int(conf["port"]), answer)
"""


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    live, test = dice.pick(
        (("production", "staging"), ("prod", "stage"), ("live", "test"), ("main", "preprod"))
    )
    item, folder = dice.token(), f"/etc/{service}/{dice.pick(('conf.d', 'profiles', 'env'))}"
    current = f"{folder}/{dice.pick(('current', 'active'))}.conf"
    data = {name: f"{place.data}/{name}.json" for name in (live, test)}

    def settings(name: str) -> File:
        text = f"# {name}\nport{place.sign}{place.port}\ndata{place.sign}{data[name]}\n"
        return File(path=f"{folder}/{name}.conf", text=text)

    linked = dice.chance(0.5)
    files = (
        File(
            path=place.program, text=program(dice, BODY, reloaded=dice.wording(TEXTS["reloaded"]))
        ),
        settings(live),
        settings(test),
        File(path=current, text=f"profile{place.sign}{live}\n"),
        File(path=data[live], text=json.dumps([item, dice.word(), dice.word()])),
        File(path=data[test], text=json.dumps([f"test-{dice.token(4)}", "dummy"])),
        *beside.files,
    )

    def choose(name: str) -> str:
        if linked:
            return f"ln -sfn {folder}/{name}.conf {current}"
        return f"sed -i 's|^profile{place.sign}.*|profile{place.sign}{name}|' {current}"

    serves = Http(name="the right items are served", port=place.port, path="/items", contains=item)
    command = f"{PYTHON} {place.program}"
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                units=(
                    unit(
                        service, f"{command} {current}", more="ExecReload=/bin/kill -HUP $MAINPID"
                    ),
                    beside.unit,
                ),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(
            serves,
            served_by(place.unit, place.port),
            beside.answers,
        ),
        symptoms=(serves,),
        inject=(
            changes(dice),
            remembered(dice, f"cd {folder}", choose(test), f"systemctl reload {service}"),
            f"{choose(test)} && systemctl reload {service}",
        ),
        cure=(Trigger(restart=(place.unit,)),),
        collateral=(
            *beside.unharmed,
            *(Same(name=f"settings of {n}", path=f"{folder}/{n}.conf") for n in (live, test)),
            Same(name="the data", path=place.data),
            Same(name="its unit", path=f"/etc/systemd/system/{place.unit}"),
        ),
        fault=Fault(
            component=(current, service, folder),
            mechanism=(
                test,
                f"{test}.conf",
                "wrong profile",
                "wrong settings",
                "wrong environment",
            ),
            value=(test, f"{folder}/{test}.conf", data[test]),
        ),
        reference=(choose(live), f"systemctl reload {service}"),
        relief=(
            f"systemctl stop {service}",
            by_hand(place, command=f"{command} {folder}/{live}.conf"),
        ),
        shortcut=(
            f"sed -i 's|^data.*|data{place.sign}{data[live]}|' {folder}/{test}.conf",
            f"systemctl reload {service}",
        ),
        traffic=(Traffic(port=place.port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="staging-settings-reloaded",
    group="change",
    summary="production runs on the settings of staging since the last reload",
    draw=draw,
)
