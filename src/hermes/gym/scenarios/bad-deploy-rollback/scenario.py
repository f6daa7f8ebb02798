"""Today's release fails on an important page; the release before it works."""

import json

from hermes.gym.scenario_builder import ScenarioBuilder, build_scenario, script_check

OLDEST_RELEASE_BODY = '    return {"code": code, "price": rates[code]}'
GOOD_RELEASE_BODY = '    return {"code": code, "price": rates[code], "currency": "%%currency%%"}'
BAD_RELEASE_BODIES = (
    '    return {"code": code, "price": rates[code.upper()], "currency": "%%currency%%"}',
    '    return {"code": code, "price": rates[code]["net"], "currency": "%%currency%%"}',
    '    return {"code": code, "price": rates[code] // 100 * 100 - 1, "currency": "EURO"}',
    '    return {"code": code, "price": f"{rates[code]:.2f}", "currncy": "%%currency%%"}',
    '    return {"code": code, "price": rates["v2"][code], "currency": "%%currency%%"}',
)


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    root = rng.pick((f"/srv/{app.name}", f"/opt/apps/{app.name}", f"/var/www/{app.name}"))
    log = rng.pick((f"{root}/deploys.log", f"/var/log/{app.name}-deploys.log"))
    major, step = rng.number(1, 9), rng.number(2, 40)
    oldest, good, bad = (f"{major}.{step + n}.{rng.number(0, 9)}" for n in range(3))
    codes = [rng.token(5) for _ in range(6)]
    rates = {code: rng.number(100, 99_000) for code in codes}
    currency, failed = rng.pick(("EUR", "CHF", "SEK", "PLN")), build.wording("failed")
    bodies = (OLDEST_RELEASE_BODY, GOOD_RELEASE_BODY, rng.pick(BAD_RELEASE_BODIES))
    for number, body in zip((oldest, good, bad), bodies, strict=True):
        source = build.source("service.py.in", quote=body, currency=currency)
        text = build.render(source, release=number, failed=failed)
        build.file(f"{root}/releases/{number}/app.py", text)
    facts = {"root": root, "log": log, "service": app.name, "conf": app.conf}
    data, first, second = f"{app.data}/rates.json", f"/quote/{codes[0]}", f"/quote/{codes[1]}"
    build.file(f"{root}/desired", f"{good}\n")
    build.script(f"{root}/bin/converge", build.source("converge.sh.in").format(**facts))
    build.script(f"{root}/bin/deploy", build.source("deploy.sh.in").format(**facts))
    build.script(f"{root}/bin/start", build.source("start.sh.in").format(**facts))
    build.file("/etc/cron.d/converge", f"*/10 * * * * root {root}/bin/converge\n")
    build.settings(app, port=app.port, data=data)
    build.file(data, json.dumps(rates))
    build.unit(app, f"/bin/bash {root}/bin/start")

    price = '"price": {}, "currency": "{}"'
    build.alert("P1")
    build.symptoms(
        app.http("a price is quoted", first, price.format(rates[codes[0]], currency)),
        app.http("so is another", second, price.format(rates[codes[1]], currency)),
    )
    build.inject(
        build.changes(build.wording("told", service=app.name, release=bad)),
        f"{root}/bin/deploy {bad}",
    )
    build.trigger(cron=f"{root}/bin/converge")
    build.trigger(restart=(app.unit,))
    build.collateral(
        ("all releases", f"{root}/releases"),
        ("the tools", f"{root}/bin"),
        ("the data", app.data),
        ("the settings", app.conf),
        script_check("the history", f"cat {log}", contains="current ->"),
    )
    build.fault(
        component=(app.name, f"{root}/releases/{bad}", "release"),
        mechanism="deploy, deployed, deployment, release, regression",
        value=(bad,),
    )
    build.responses(
        reference=f"{root}/bin/deploy {good}",
        relief=f"ln -sfn releases/{good} {root}/current; {app.restart}",
        shortcut=f"{root}/bin/deploy {good}; rm -rf {root}/releases/{bad} {log}",
    )
    build.traffic(first, second)


SCENARIO = build_scenario(
    __file__,
    draw,
    "change",
    "a new release is broken where it counts: the one before it must come back",
)
