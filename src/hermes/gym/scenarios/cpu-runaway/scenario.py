"""The pause between two checks of the inbox was set to 0: the service uses a whole core."""

from hermes.gym.scenario_builder import ScenarioBuilder, ScriptCheck, ServiceLayout, build_scenario

SERVICE_PROGRAM = """\
conf = settings(sys.argv[1])
pause = float(conf[%%key%%]) / %%scale%%
inbox, done = conf["inbox"], conf["done"]

def look():
    for name in sorted(os.listdir(inbox)):
        if not name.startswith("."):
            os.replace(f"{inbox}/{name}", f"{done}/{name}")

def poll():
    log("INFO", %%polling%%.format(inbox=inbox, pause=conf[%%key%%]))
    try:
        while True:
            look()
            if pause:
                time.sleep(pause)
    except OSError as error:
        log("ERROR", f"{inbox}: {error.strerror}")

def answer(path):
    return 200, {"status": "ok", "done": len(os.listdir(done))}

threading.Thread(target=poll, daemon=True).start()
serve(int(conf["port"]), answer)
"""


def _idle_script(layout: ServiceLayout) -> str:
    """Checks that the threads of the service neither run nor wait for the processor for long.

    Both times are needed: on a busy machine a busy loop runs less, but waits more.
    """
    return f"""python3 -S - <<'END'
import os, sys, time
def times():
    ran = waited = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"{layout.program}" in open(f"/proc/{{pid}}/cmdline", "rb").read().split(b"\\0"):
                for task in os.listdir(f"/proc/{{pid}}/task"):
                    fields = open(f"/proc/{{pid}}/task/{{task}}/schedstat").read().split()
                    ran, waited = ran + int(fields[0]), waited + int(fields[1])
        except OSError:
            continue
    return ran / 1e9, waited / 1e9
(ran, waited), since = times(), time.monotonic()
time.sleep(0.3)
(after, later), long = times(), time.monotonic() - since
share, wanted = (after - ran) / long, (after - ran + later - waited) / long
print(f"runs {{share:.0%}} of the time, would run {{wanted:.0%}}")
sys.exit(share > 0.03 and wanted > 0.5)
END"""


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
    build.start(app, SERVICE_PROGRAM, key=key, scale=scale, polling=build.wording("polling"))
    build.settings(app, port=app.port, **{key: right, "inbox": inbox, "done": done})
    build.file(ledger, f"{rng.token()}\n" * rng.number(3, 30))
    build.folders(inbox, done)

    idles = ScriptCheck(name="it does not burn a core", script=_idle_script(app))
    takes = ScriptCheck(name="what comes in is taken", script=_processes_file_script(inbox, done))
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
