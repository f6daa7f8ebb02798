"""Today's release fails on an important page; the release before it works."""

import json

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    ScriptCheck,
    TrafficSpec,
    UnchangedCheck,
)
from hermes.gym.services.python_service import (
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)

TEXTS = texts(__file__)

SERVICE_PROGRAM = """\
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
OLDEST_RELEASE_BODY = '    return {"code": code, "price": rates[code]}'
GOOD_RELEASE_BODY = '    return {"code": code, "price": rates[code], "currency": "%%currency%%"}'
BAD_RELEASE_BODIES = (
    '    return {"code": code, "price": rates[code.upper()], "currency": "%%currency%%"}',
    '    return {"code": code, "price": rates[code]["net"], "currency": "%%currency%%"}',
    '    return {"code": code, "price": rates[code] // 100 * 100 - 1, "currency": "EURO"}',
    '    return {"code": code, "price": f"{rates[code]:.2f}", "currncy": "%%currency%%"}',
    '    return {"code": code, "price": rates["v2"][code], "currency": "%%currency%%"}',
)
CONVERGE_SCRIPT = """\
#!/bin/bash
# Sees to it that what runs is what {root}/desired says.
cd {root}
want=$(cat desired)
[ "$(readlink current)" = releases/$want ] && exit 0
ln -sfn releases/$want current
echo "$(date '+%F %T') current -> $want" >> {log}
[ "$1" = --no-restart ] || systemctl restart {service}
"""
DEPLOY_SCRIPT = """\
#!/bin/bash
# deploy RELEASE: makes it the desired one, and brings it about.
cd {root} || exit 1
[ -n "$1" ] && [ -d "releases/$1" ] || {{ echo "usage: deploy RELEASE"; ls releases; exit 1; }}
echo "$1" > desired
echo "$(date '+%F %T') deploy $1" >> {log}
bin/converge
"""
START_SCRIPT = """\
#!/bin/bash
cd {root}
[ -e current ] || bin/converge --no-restart
exec /usr/bin/python3 -S {root}/current/app.py {conf}
"""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    root = rng.pick((f"/srv/{service}", f"/opt/apps/{service}", f"/var/www/{service}"))
    log = rng.pick((f"{root}/deploys.log", f"/var/log/{service}-deploys.log"))
    major, step = rng.number(1, 9), rng.number(2, 40)
    oldest, good, bad = (f"{major}.{step + n}.{rng.number(0, 9)}" for n in range(3))
    codes = [rng.token(5) for _ in range(6)]
    rates = {code: rng.number(100, 99_000) for code in codes}
    currency, failed = rng.pick(("EUR", "CHF", "SEK", "PLN")), rng.wording(TEXTS["failed"])
    sources = {
        oldest: OLDEST_RELEASE_BODY,
        good: GOOD_RELEASE_BODY,
        bad: rng.pick(BAD_RELEASE_BODIES),
    }

    def release(number: str) -> HostFile:
        body = SERVICE_PROGRAM.replace("%%quote%%", sources[number]).replace(
            "%%currency%%", currency
        )
        text = render_program(rng, body, release=number, failed=failed)
        return HostFile(path=f"{root}/releases/{number}/app.py", text=text)

    facts = {"root": root, "log": log, "service": service, "conf": layout.conf}
    data = f"{layout.data}/rates.json"
    files = (
        *(release(number) for number in sources),
        HostFile(path=f"{root}/desired", text=f"{good}\n"),
        HostFile(path=f"{root}/bin/converge", text=CONVERGE_SCRIPT.format(**facts), mode=0o755),
        HostFile(path=f"{root}/bin/deploy", text=DEPLOY_SCRIPT.format(**facts), mode=0o755),
        HostFile(path=f"{root}/bin/start", text=START_SCRIPT.format(**facts), mode=0o755),
        HostFile(path="/etc/cron.d/converge", text=f"*/10 * * * * root {root}/bin/converge\n"),
        layout.settings(port=layout.port, data=data),
        HostFile(path=data, text=json.dumps(rates)),
        *neighbour.files,
    )
    first = codes[0]
    priced = HttpCheck(
        name="a price is quoted",
        port=layout.port,
        path=f"/quote/{first}",
        contains=f'"price": {rates[first]}, "currency": "{currency}"',
    )
    other_page = HttpCheck(
        name="so is another",
        port=layout.port,
        path=f"/quote/{codes[1]}",
        contains=f'"price": {rates[codes[1]]}, "currency": "{currency}"',
    )
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                units=(service_unit(service, f"/bin/bash {root}/bin/start"), neighbour.unit),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(priced, other_page, neighbour.answers),
        symptoms=(priced, other_page),
        inject=(
            change_log_script(rng, rng.wording(TEXTS["told"]).format(service=service, release=bad)),
            f"{root}/bin/deploy {bad}",
        ),
        cure=(FaultTrigger(cron=f"{root}/bin/converge"), FaultTrigger(restart=(layout.unit,))),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="all releases", path=f"{root}/releases"),
            UnchangedCheck(name="the tools", path=f"{root}/bin"),
            UnchangedCheck(name="the data", path=layout.data),
            UnchangedCheck(name="the settings", path=layout.conf),
            ScriptCheck(name="the history", script=f"cat {log}", contains="current ->"),
        ),
        fault=FaultDescription(
            component=(service, f"{root}/releases/{bad}", "release"),
            mechanism=("deploy", "deployed", "deployment", "release", "regression"),
            value=(bad,),
        ),
        reference=(f"{root}/bin/deploy {good}",),
        relief=(f"ln -sfn releases/{good} {root}/current; systemctl restart {service}",),
        shortcut=(f"{root}/bin/deploy {good}; rm -rf {root}/releases/{bad} {log}",),
        traffic=(TrafficSpec(port=layout.port, paths=(f"/quote/{first}", f"/quote/{codes[1]}")),),
    )


SCENARIO = Scenario(
    name="bad-deploy-rollback",
    group="change",
    summary="a new release is broken where it counts: the one before it must come back",
    draw=draw,
)
