"""The pause between two checks of the inbox was set to 0: the service uses a whole core."""

from hermes.gym.scenario_builder import ScenarioBuilder, build_scenario, script_check


def _processes_file_script(inbox: str, done: str) -> str:
    return (
        f"cd {inbox} || exit 1; name=check-$RANDOM$RANDOM; echo x > .$name; mv .$name $name; "
        f"for i in $(seq 150); do test -e {done}/$name && rm {done}/$name && exit 0; sleep 0.02; "
        "done; exit 1"
    )


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    unit_of_time = rng.pick(("ms", "s"))
    scale = 1000.0 if unit_of_time == "ms" else 1.0
    name = rng.pick(("poll_interval", "scan_every", "sleep_between", "poll", "refresh"))
    key = f"{name}_{unit_of_time}"
    right = rng.number(40, 120) if unit_of_time == "ms" else rng.number(4, 12) / 100
    wrong = rng.pick(("0", "0.0", "0.000", "00"))
    inbox, done, ledger = f"{app.data}/inbox", f"{app.data}/done", f"{app.data}/ledger.txt"
    build.start(
        app, build.source("service.py.in"), key=key, scale=scale, polling=build.wording("polling")
    )
    build.settings(app, port=app.port, **{key: right, "inbox": inbox, "done": done})
    build.file(ledger, f"{rng.token()}\n" * rng.number(3, 30))
    build.folders(inbox, done)

    # It measures running and waiting: on a busy machine a busy loop runs less, but waits more.
    idles = script_check("it does not burn a core", build.source("idle.sh.in", program=app.program))
    takes = script_check("what comes in is taken", _processes_file_script(inbox, done))
    build.alert("P3")
    build.healthy(app.http("it answers", "/health"), takes)
    build.symptoms(idles)
    build.healthy(app.runs())
    build.inject(
        build.changes(build.wording("causes", service=app.name, key=key, old=right)),
        app.put_and_restart(key, wrong),
    )
    build.collateral(("its ledger", ledger), ("the program", app.program))
    build.fault(
        component=(app.conf,),
        mechanism="busy loop, busy-loop, spin, without pause, no pause, polling",
        value=(f"{key}{app.sign}{wrong}", key),
    )
    build.responses(
        reference=app.put_and_restart(key, right),
        relief=f"systemctl stop {app.name}",
        shortcut=f"rm -rf {app.data}; sleep 0.1",
    )
    build.traffic("/health", pause=0.5)


SCENARIO = build_scenario(
    __file__, draw, "classic", "a poll interval of zero makes the service spin"
)
