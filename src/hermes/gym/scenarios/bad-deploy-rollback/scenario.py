"""The release of today fails on the page that matters; the one before it does not."""

import json

from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Same, Script, Story, Traffic, Trigger

TEXTS = texts(__file__)

APP = """\
conf = settings(sys.argv[1])
rates = json.load(open(conf["data"]))

def quote(code):
%%quote%%

def answer(path):
    if path == "/health":
        return 200, {"status": "ok", "release": %%release%%}
    try:
        return 200, quote(path.rpartition("/")[2])
    except Exception as error:
        log("ERROR", %%failed%%.format(path=path, error=f"{type(error).__name__}: {error}"))
        return 500, {"error": "internal"}

serve(int(conf["port"]), answer)
"""
OLDEST = '    return {"code": code, "price": rates[code]}'
GOOD = '    return {"code": code, "price": rates[code], "currency": "%%currency%%"}'
BAD = (
    '    return {"code": code, "price": rates[code.upper()], "currency": "%%currency%%"}',
    '    return {"code": code, "price": rates[code]["net"], "currency": "%%currency%%"}',
    '    return {"code": code, "price": rates[code] // 100 * 100 - 1, "currency": "EURO"}',
    '    return {"code": code, "price": f"{rates[code]:.2f}", "currncy": "%%currency%%"}',
    '    return {"code": code, "price": rates["v2"][code], "currency": "%%currency%%"}',
)
CONVERGE = """\
#!/bin/bash
# Sees to it that what runs is what {root}/desired says.
cd {root}
want=$(cat desired)
[ "$(readlink current)" = releases/$want ] && exit 0
ln -sfn releases/$want current
echo "$(date '+%F %T') current -> $want" >> {log}
[ "$1" = --no-restart ] || systemctl restart {service}
"""
DEPLOY = """\
#!/bin/bash
# deploy RELEASE: makes it the desired one, and brings it about.
cd {root} || exit 1
[ -n "$1" ] && [ -d "releases/$1" ] || {{ echo "usage: deploy RELEASE"; ls releases; exit 1; }}
echo "$1" > desired
echo "$(date '+%F %T') deploy $1" >> {log}
bin/converge
"""
START = """\
#!/bin/bash
cd {root}
[ -e current ] || bin/converge --no-restart
exec /usr/bin/python3 -S {root}/current/app.py {conf}
"""


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    root = dice.pick((f"/srv/{service}", f"/opt/apps/{service}", f"/var/www/{service}"))
    log = dice.pick((f"{root}/deploys.log", f"/var/log/{service}-deploys.log"))
    major, step = dice.number(1, 9), dice.number(2, 40)
    oldest, good, bad = (f"{major}.{step + n}.{dice.number(0, 9)}" for n in range(3))
    codes = [dice.token(5) for _ in range(6)]
    rates = {code: dice.number(100, 99_000) for code in codes}
    currency, failed = dice.pick(("EUR", "CHF", "SEK", "PLN")), dice.wording(TEXTS["failed"])
    sources = {oldest: OLDEST, good: GOOD, bad: dice.pick(BAD)}

    def release(number: str) -> File:
        body = APP.replace("%%quote%%", sources[number]).replace("%%currency%%", currency)
        text = program(dice, body, release=number, failed=failed)
        return File(path=f"{root}/releases/{number}/app.py", text=text)

    facts = {"root": root, "log": log, "service": service, "conf": place.conf}
    data = f"{place.data}/rates.json"
    files = (
        *(release(number) for number in sources),
        File(path=f"{root}/desired", text=f"{good}\n"),
        File(path=f"{root}/bin/converge", text=CONVERGE.format(**facts), mode=0o755),
        File(path=f"{root}/bin/deploy", text=DEPLOY.format(**facts), mode=0o755),
        File(path=f"{root}/bin/start", text=START.format(**facts), mode=0o755),
        File(path="/etc/cron.d/converge", text=f"*/10 * * * * root {root}/bin/converge\n"),
        place.settings(port=place.port, data=data),
        File(path=data, text=json.dumps(rates)),
        *beside.files,
    )
    first = codes[0]
    priced = Http(
        name="a price is quoted",
        port=place.port,
        path=f"/quote/{first}",
        contains=f'"price": {rates[first]}, "currency": "{currency}"',
    )
    also = Http(
        name="so is another",
        port=place.port,
        path=f"/quote/{codes[1]}",
        contains=f'"price": {rates[codes[1]]}, "currency": "{currency}"',
    )
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                units=(unit(service, f"/bin/bash {root}/bin/start"), beside.unit),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(priced, also, beside.answers),
        symptoms=(priced, also),
        inject=(
            changes(dice, dice.wording(TEXTS["told"]).format(service=service, release=bad)),
            f"{root}/bin/deploy {bad}",
        ),
        cure=(Trigger(cron=f"{root}/bin/converge"), Trigger(restart=(place.unit,))),
        collateral=(
            *beside.unharmed,
            Same(name="all releases", path=f"{root}/releases"),
            Same(name="the tools", path=f"{root}/bin"),
            Same(name="the data", path=place.data),
            Same(name="the settings", path=place.conf),
            Script(name="the history", script=f"cat {log}", contains="current ->"),
        ),
        fault=Fault(
            component=(service, f"{root}/releases/{bad}", "release"),
            mechanism=("deploy", "deployed", "deployment", "release", "regression"),
            value=(bad,),
        ),
        reference=(f"{root}/bin/deploy {good}",),
        relief=(f"ln -sfn releases/{good} {root}/current; systemctl restart {service}",),
        shortcut=(f"{root}/bin/deploy {good}; rm -rf {root}/releases/{bad} {log}",),
        traffic=(Traffic(port=place.port, paths=(f"/quote/{first}", f"/quote/{codes[1]}")),),
    )


SCENARIO = Scenario(
    name="bad-deploy-rollback",
    group="change",
    summary="a new release is broken where it counts: the one before it must come back",
    draw=draw,
)
