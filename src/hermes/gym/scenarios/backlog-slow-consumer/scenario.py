"""A consumer waits too long between two jobs: the queue grows while the processor is idle."""

from hermes.gym.scenario_builder import (
    ScenarioBuilder,
    ScriptCheck,
    build_scenario,
    other_settings_unchanged,
)

CONSUMER_PROGRAM = """\
conf = settings(sys.argv[1])
queue, done, pause = conf["queue"], conf["done"], float(conf["%%key%%"]) / 1000

def work():
    while True:
        names = sorted(name for name in os.listdir(queue) if name.endswith(".job"))
        for place, name in enumerate(names, 1):
            with open(done, "a") as file:
                file.write(name + "\\n")
            os.unlink(f"{queue}/{name}")
            left = len(names) - place
            if left % 10 == 0:
                log("INFO", %%working%%.format(name=name, left=left))
            time.sleep(pause)
        time.sleep(0.02)

def answer(path):
    return 200, {"mark": conf["mark"]}

if __name__ == "__main__" and sys.argv[2:] == ["--drain"]:
    pause = 0
    threading.Thread(target=work, daemon=True).start()
    while any(name.endswith(".job") for name in os.listdir(queue)):
        time.sleep(0.01)
    sys.exit()
threading.Thread(target=work, daemon=True).start()
serve(int(conf["port"]), answer)
"""

PRODUCER_PROGRAM = """\
import signal

conf = settings(sys.argv[1])
number, waiting = 0, 0

def rush(*_):
    global waiting
    waiting += 70

signal.signal(signal.SIGUSR1, rush)
while True:
    number += 1
    waiting = max(0, waiting - 1)
    path = f"{conf['queue']}/{number:08d}"
    open(path + ".part", "w").close()
    os.rename(path + ".part", path + ".job")
    if not waiting:
        time.sleep(0.1)
"""
"""Sends a wave of jobs at a signal."""


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, producer = build.draw_services(2)
    mark = rng.token()
    key = rng.pick(("pause_ms", "delay_ms", "throttle_ms", "wait_ms", "idle_ms"))
    right, wrong = rng.pick((0, 1, 2)), rng.number(900, 4000)
    queue, done = f"/var/spool/{app.name}", f"{app.data}/done.log"

    build.start(app, CONSUMER_PROGRAM.replace("%%key%%", key), working=build.wording("working"))
    conf = build.settings(app, port=app.port, queue=queue, done=done, mark=mark, **{key: right})
    build.file(done)
    build.start(producer, PRODUCER_PROGRAM)
    build.settings(producer, queue=queue)
    build.folders(queue)

    burst = (
        f"last() {{ {{ ls {queue}; cat {done}; }} | grep 'job$' | sort | tail -n 1"
        " | tr -dc 0-9; }; before=$((10#0$(last)));"
        f" kill -USR1 $(systemctl show -p MainPID --value {producer.name}); for n in $(seq 200); do"
        " test $((10#0$(last))) -ge $((before + 70)) && break; sleep 0.02; done"
    )
    all_done = ScriptCheck(
        name="every job is done or waits",
        # The queue first: a job that is finished in between is then counted twice, not missed.
        script=f"all=$(ls {queue}; cat {done}); all=$(grep 'job$' <<< \"$all\" | sort -u);"
        ' test -z "$all" && exit; last=$(tail -n 1 <<< "$all"); have=$(wc -l <<< "$all");'
        " echo $last $have; test $((10#${last%.job})) -eq $have",
    )
    build.alert("P2", count=rng.number(70, 900))
    build.symptoms(
        ScriptCheck(name="the queue is short", script=f"test $(ls {queue} | wc -l) -lt 30")
    )
    build.healthy(app.http("the consumer answers", contains=mark))
    build.inject(
        build.changes(),
        build.history(f"vi {app.conf}", app.restart),
        app.put_and_restart(key, wrong),
        burst,
    )
    build.trigger(restart=(app.unit,), script=burst)
    build.collateral(
        producer.undisturbed("the producer was left alone"),
        ("the settings of the producer", producer.conf),
        other_settings_unchanged("the other settings of the consumer", conf, key),
        all_done,
    )
    build.fault(
        component=(app.conf, app.name, app.conf.rpartition("/")[2]),
        mechanism=f"slow, throttle, pause, delay, {key}",
        value=(f"{wrong}", f"{key}{app.sign}{wrong}"),
    )
    build.responses(
        reference=(app.put(key, right), app.restart),
        relief=f"timeout 5 {app.command} --drain",
        shortcut=f"rm -f {queue}/*; {app.put(key, right)}; {app.restart}",
    )


SCENARIO = build_scenario(
    __file__, draw, "jobs", "a consumer that pauses between jobs lets its queue grow"
)
