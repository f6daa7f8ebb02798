"""A change set the number of workers to 0: the front end runs, but no work is done."""

from hermes.gym.scenario_builder import (
    ScenarioBuilder,
    build_scenario,
    script_check,
    wait_until_listening_script,
)


def _min_workers_script(port: int, least: int) -> str:
    return (
        f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /status HTTP/1.0\\r\\n\\r\\n' >&3; "
        "text=$(timeout 2 cat <&3); count=${text##*'\"workers\": '}; count=${count%%[!0-9]*}; "
        f'echo "$count workers"; test "${{count:-0}}" -ge {least}'
    )


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    key = rng.pick(("workers", "replicas", "instances", "concurrency", "min_workers", "processes"))
    right, number = rng.number(2, 9), rng.number(10, 99)
    tariff, standard = f"{rng.word()}-{rng.token(6)}", rng.token(4)
    nobody = build.wording("nobody")
    build.start(
        app, build.source("service.py.in"), key=key, nobody=nobody, crew=build.wording("crew")
    )
    build.settings(app, port=app.port, tariff=tariff, **{key: right})
    sample = app.settings(port=app.port, tariff=standard, **{key: right}).text
    build.file(f"{app.conf}.dist", sample)

    result = f'"result": {number * len(tariff)}, "tariff": "{tariff}"'
    cause = build.wording("causes", service=app.name, key=key, count=right)
    scale = f"printf 'GET /scale/{right} HTTP/1.0\\r\\n\\r\\n' >&3; timeout 1 cat <&3"
    build.alert("P1")
    build.symptoms(
        app.http("work is done", f"/work/{number}", result),
        script_check("there are workers enough", _min_workers_script(app.port, right)),
    )
    build.healthy(app.runs())
    build.inject(
        build.changes(cause),
        f"{app.put_and_restart(key, 0)}; {wait_until_listening_script(app.port)}",
    )
    build.collateral(("the program", app.program), ("the sample", f"{app.conf}.dist"))
    build.fault(
        component=(app.conf,),
        mechanism="scaled to zero, no workers, zero workers, 0 workers, scaled down",
        value=(f"{key}{app.sign}0", key),
    )
    build.responses(
        reference=app.put_and_restart(key, right),
        relief=f"exec 3<>/dev/tcp/127.0.0.1/{app.port}; {scale}",
        futile=f"cp {app.conf}.dist {app.conf} && {app.restart}",
    )
    build.traffic(f"/work/{number}", "/status")


SCENARIO = build_scenario(__file__, draw, "process", "the number of workers was changed to zero")
