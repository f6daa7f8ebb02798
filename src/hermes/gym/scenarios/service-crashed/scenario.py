"""The queue holds a record of an unexpected form: the service crashes on it at each start."""

import json

from hermes.gym.scenario_builder import (
    ScenarioBuilder,
    UnchangedCheck,
    build_scenario,
    script_check,
)


def _all_open_script(port: int, known: list[str]) -> str:
    return (
        f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /open HTTP/1.0\\r\\n\\r\\n' >&3; "
        f"text=$(timeout 2 cat <&3) && for id in {' '.join(known)}; do "
        'case "$text" in *"\\"$id\\""*) ;; *) echo "no $id"; exit 1 ;; esac; done'
    )


def _records_kept_script(received: str) -> str:
    """All records still exist, in any folder."""
    return (
        f"found=$(grep -rhoFf {received} --exclude={received.rpartition('/')[2]} "
        "/var /srv /opt /root /home /tmp /mnt /etc 2>/dev/null | sort -u | wc -l); "
        f'test "$found" = "$(sort -u {received} | wc -l)"'
    )


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    field = rng.pick(("amount", "price", "net", "value", "rate"))
    queue = f"{app.data}/{rng.pick(('queue', 'incoming', 'spool', 'pending', 'inbox'))}"
    numbers = rng.some(range(1000, 9999), rng.number(6, 12))
    records = {n: {"id": f"{rng.word()}-{n}", field: 2.5, "count": n % 7 + 1} for n in numbers}
    bad, buyer = rng.number(1000, 9999) + 10_000, rng.token(12)
    flaw = rng.pick(("null", '"12,50"', '{"eur": 12}', "[]", '"n/a"'))
    poison = f'{{"id": "{buyer}", "{field}": {flaw}, "count": 1.5}}'
    build.start(app, build.source("service.py.in", amount=field), taking=build.wording("taking"))
    build.settings(app, port=app.port, queue=queue)
    for n, record in records.items():
        build.file(f"{queue}/{n}.json", json.dumps(record))
    known, received = [f"{each['id']}" for each in records.values()], f"{app.data}/received.log"
    build.file(received, "".join(f'"{each}"\n' for each in known))

    build.alert("P1")
    build.symptoms(
        app.http("it answers", "/health"),
        script_check("every good record is open", _all_open_script(app.port, known)),
    )
    build.healthy(app.runs())
    build.inject(
        build.changes(build.wording("decoys", service=app.name)),
        f"echo '\"{buyer}\"' >> {received}; "
        f"echo '{poison}' > {queue}/.new && mv {queue}/.new {queue}/{bad}.json",
    )
    build.clean_restart()
    build.collateral(
        UnchangedCheck(name="the list of what came in", path=received, may_grow=True),
        script_check("nothing that came in was lost", _records_kept_script(received)),
        ("the program", app.program),
        ("its settings", app.conf),
    )
    build.fault(
        component=(f"{bad}.json", f"{queue}/{bad}"),
        mechanism="poison, malformed, invalid record, TypeError, bad record, wrong type",
        value=(f"{bad}", field),
    )
    aside = f"{app.data}/aside"
    build.responses(
        reference=(f"mkdir -p {aside} && mv {queue}/{bad}.json {aside}/", app.restart),
        futile=f"systemctl reset-failed {app.name}; {app.restart}",
        shortcut=f"rm -f {queue}/*; {app.restart}",
    )
    build.traffic("/open", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "classic",
    "a record of an unforeseen shape in the queue ends the service at every start",
)
