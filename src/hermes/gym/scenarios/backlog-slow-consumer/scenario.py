"""A consumer waits too long between two jobs: the queue grows while the processor is idle."""

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
"""Sends a wave of jobs at a signal."""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, source, other = rng.services(3)
    layout, producer, neighbour = (
        draw_layout(rng, service),
        draw_layout(rng, source),
        draw_neighbour(rng, other),
    )
    host, mark = rng.host(), rng.token()
    key = rng.pick(("pause_ms", "delay_ms", "throttle_ms", "wait_ms", "idle_ms"))
    right, wrong = rng.pick((0, 1, 2)), rng.number(900, 4000)
    queue, done = f"/var/spool/{service}", f"{layout.data}/done.log"
    settings_file = layout.settings(
        port=layout.port, queue=queue, done=done, mark=mark, **{key: right}
    )
    source_text = render_program(
        rng, CONSUMER_PROGRAM.replace("%%key%%", key), working=rng.wording(TEXTS["working"])
    )
    files = (
        HostFile(path=layout.program, text=source_text),
        settings_file,
        HostFile(path=done, text=""),
        HostFile(path=producer.program, text=render_program(rng, PRODUCER_PROGRAM)),
        producer.settings(queue=queue),
        *neighbour.files,
    )
    queue_short = ScriptCheck(
        name="the queue is short", script=f"test $(ls {queue} | wc -l) -lt 30"
    )
    burst = (
        f"last() {{ {{ ls {queue}; cat {done}; }} | grep 'job$' | sort | tail -n 1"
        " | tr -dc 0-9; }; before=$((10#0$(last)));"
        f" kill -USR1 $(systemctl show -p MainPID --value {source}); for n in $(seq 200); do"
        " test $((10#0$(last))) -ge $((before + 70)) && break; sleep 0.02; done"
    )
    all_done = ScriptCheck(
        name="every job is done or waits",
        # The queue first: a job that is finished in between is then counted twice, not missed.
        script=f"all=$(ls {queue}; cat {done}); all=$(grep 'job$' <<< \"$all\" | sort -u);"
        ' test -z "$all" && exit; last=$(tail -n 1 <<< "$all"); have=$(wc -l <<< "$all");'
        " echo $last $have; test $((10#${last%.job})) -eq $have",
    )
    facts = {"service": service, "host": host, "port": layout.port, "count": rng.number(70, 900)}
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                folders=(queue,),
                units=(
                    service_unit(service, layout.command),
                    service_unit(source, producer.command),
                    neighbour.unit,
                ),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P2", **facts),
        healthy=(
            queue_short,
            HttpCheck(name="the consumer answers", port=layout.port, contains=mark),
            neighbour.answers,
        ),
        symptoms=(queue_short,),
        inject=(
            change_log_script(rng),
            shell_history_script(rng, f"vi {layout.conf}", f"systemctl restart {service}"),
            f"{layout.put(key, wrong)} && systemctl restart {service}",
            burst,
        ),
        cure=(FaultTrigger(restart=(layout.unit,), script=burst),),
        collateral=(
            *neighbour.unharmed,
            UnitRunningCheck(
                name="the producer was left alone", unit=producer.unit, undisturbed=True
            ),
            UnchangedCheck(name="the settings of the producer", path=producer.conf),
            other_settings_unchanged("the other settings of the consumer", settings_file, key),
            all_done,
        ),
        fault=FaultDescription(
            component=(layout.conf, service, settings_file.path.rpartition("/")[2]),
            mechanism=("slow", "throttle", "pause", "delay", key),
            value=(f"{wrong}", f"{key}{layout.sign}{wrong}"),
        ),
        reference=(layout.put(key, right), f"systemctl restart {service}"),
        relief=(f"timeout 5 {PYTHON_COMMAND} {layout.program} {layout.conf} --drain",),
        shortcut=(f"rm -f {queue}/*; {layout.put(key, right)}; systemctl restart {service}",),
    )


SCENARIO = Scenario(
    name="backlog-slow-consumer",
    group="jobs",
    summary="a consumer that pauses between jobs lets its queue grow",
    draw=draw,
)
