"""A consumer waits too long between two jobs: the queue grows while the processor idles."""

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
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.services.python_service import (
    PYTHON_COMMAND,
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.shell_scripts import other_settings_unchanged, shell_history_script

TEXTS = texts(__file__)

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
"""At the signal comes what people call a wave."""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, source, other = rng.services(3)
    place, giver, beside = (
        draw_layout(rng, service),
        draw_layout(rng, source),
        draw_neighbour(rng, other),
    )
    host, mark = rng.host(), rng.token()
    key = rng.pick(("pause_ms", "delay_ms", "throttle_ms", "wait_ms", "idle_ms"))
    right, wrong = rng.pick((0, 1, 2)), rng.number(900, 4000)
    queue, done = f"/var/spool/{service}", f"{place.data}/done.log"
    own = place.settings(port=place.port, queue=queue, done=done, mark=mark, **{key: right})
    source_text = render_program(
        rng, CONSUMER_PROGRAM.replace("%%key%%", key), working=rng.wording(TEXTS["working"])
    )
    files = (
        HostFile(path=place.program, text=source_text),
        own,
        HostFile(path=done, text=""),
        HostFile(path=giver.program, text=render_program(rng, PRODUCER_PROGRAM)),
        giver.settings(queue=queue),
        *beside.files,
    )
    short = ScriptCheck(name="the queue is short", script=f"test $(ls {queue} | wc -l) -lt 30")
    rush = (
        f"last() {{ {{ ls {queue}; cat {done}; }} | grep 'job$' | sort | tail -n 1"
        " | tr -dc 0-9; }; before=$((10#0$(last)));"
        f" kill -USR1 $(systemctl show -p MainPID --value {source}); for n in $(seq 200); do"
        " test $((10#0$(last))) -ge $((before + 70)) && break; sleep 0.02; done"
    )
    whole = ScriptCheck(
        name="every job is done or waits",
        # The queue first: what is done in between is then seen twice, and not missed.
        script=f"all=$(ls {queue}; cat {done}); all=$(grep 'job$' <<< \"$all\" | sort -u);"
        ' test -z "$all" && exit; last=$(tail -n 1 <<< "$all"); have=$(wc -l <<< "$all");'
        " echo $last $have; test $((10#${last%.job})) -eq $have",
    )
    facts = {"service": service, "host": host, "port": place.port, "count": rng.number(70, 900)}
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                folders=(queue,),
                units=(
                    service_unit(service, place.command),
                    service_unit(source, giver.command),
                    beside.unit,
                ),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P2", **facts),
        healthy=(
            short,
            HttpCheck(name="the consumer answers", port=place.port, contains=mark),
            beside.answers,
        ),
        symptoms=(short,),
        inject=(
            change_log_script(rng),
            shell_history_script(rng, f"vi {place.conf}", f"systemctl restart {service}"),
            f"{place.put(key, wrong)} && systemctl restart {service}",
            rush,
        ),
        cure=(FaultTrigger(restart=(place.unit,), script=rush),),
        collateral=(
            *beside.unharmed,
            UnitRunningCheck(name="the producer was left alone", unit=giver.unit, undisturbed=True),
            UnchangedCheck(name="the settings of the producer", path=giver.conf),
            other_settings_unchanged("the other settings of the consumer", own, key),
            whole,
        ),
        fault=FaultDescription(
            component=(place.conf, service, own.path.rpartition("/")[2]),
            mechanism=("slow", "throttle", "pause", "delay", key),
            value=(f"{wrong}", f"{key}{place.sign}{wrong}"),
        ),
        reference=(place.put(key, right), f"systemctl restart {service}"),
        relief=(f"timeout 5 {PYTHON_COMMAND} {place.program} {place.conf} --drain",),
        shortcut=(f"rm -f {queue}/*; {place.put(key, right)}; systemctl restart {service}",),
    )


SCENARIO = Scenario(
    name="backlog-slow-consumer",
    group="jobs",
    summary="a consumer that pauses between jobs lets its queue grow",
    draw=draw,
)
