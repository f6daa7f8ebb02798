"""A consumer waits too long between two jobs: the queue grows while the processor idles."""

from hermes.gym.dice import Dice
from hermes.gym.parts.hands import others_kept, remembered
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import PYTHON, alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Script, Story, Trigger

TEXTS = texts(__file__)

CONSUMER = """\
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

PRODUCER = """\
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


def draw(dice: Dice) -> Story:
    service, source, other = dice.services(3)
    place, giver, beside = premises(dice, service), premises(dice, source), neighbour(dice, other)
    host, mark = dice.host(), dice.token()
    key = dice.pick(("pause_ms", "delay_ms", "throttle_ms", "wait_ms", "idle_ms"))
    right, wrong = dice.pick((0, 1, 2)), dice.number(900, 4000)
    queue, done = f"/var/spool/{service}", f"{place.data}/done.log"
    own = place.settings(port=place.port, queue=queue, done=done, mark=mark, **{key: right})
    source_text = program(
        dice, CONSUMER.replace("%%key%%", key), working=dice.wording(TEXTS["working"])
    )
    files = (
        File(path=place.program, text=source_text),
        own,
        File(path=done, text=""),
        File(path=giver.program, text=program(dice, PRODUCER)),
        giver.settings(queue=queue),
        *beside.files,
    )
    short = Script(name="the queue is short", script=f"test $(ls {queue} | wc -l) -lt 30")
    rush = (
        f"last() {{ {{ ls {queue}; cat {done}; }} | grep 'job$' | sort | tail -n 1"
        " | tr -dc 0-9; }; before=$((10#0$(last)));"
        f" kill -USR1 $(systemctl show -p MainPID --value {source}); for n in $(seq 200); do"
        " test $((10#0$(last))) -ge $((before + 70)) && break; sleep 0.02; done"
    )
    whole = Script(
        name="every job is done or waits",
        # The queue first: what is done in between is then seen twice, and not missed.
        script=f"all=$(ls {queue}; cat {done}); all=$(grep 'job$' <<< \"$all\" | sort -u);"
        ' test -z "$all" && exit; last=$(tail -n 1 <<< "$all"); have=$(wc -l <<< "$all");'
        " echo $last $have; test $((10#${last%.job})) -eq $have",
    )
    facts = {"service": service, "host": host, "port": place.port, "count": dice.number(70, 900)}
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                folders=(queue,),
                units=(unit(service, place.command), unit(source, giver.command), beside.unit),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P2", **facts),
        healthy=(
            short,
            Http(name="the consumer answers", port=place.port, contains=mark),
            beside.answers,
        ),
        symptoms=(short,),
        inject=(
            changes(dice),
            remembered(dice, f"vi {place.conf}", f"systemctl restart {service}"),
            f"{place.put(key, wrong)} && systemctl restart {service}",
            rush,
        ),
        cure=(Trigger(restart=(place.unit,), script=rush),),
        collateral=(
            *beside.unharmed,
            Running(name="the producer was left alone", unit=giver.unit, undisturbed=True),
            Same(name="the settings of the producer", path=giver.conf),
            others_kept("the other settings of the consumer", own, key),
            whole,
        ),
        fault=Fault(
            component=(place.conf, service, own.path.rpartition("/")[2]),
            mechanism=("slow", "throttle", "pause", "delay", key),
            value=(f"{wrong}", f"{key}{place.sign}{wrong}"),
        ),
        reference=(place.put(key, right), f"systemctl restart {service}"),
        relief=(f"timeout 5 {PYTHON} {place.program} {place.conf} --drain",),
        shortcut=(f"rm -f {queue}/*; {place.put(key, right)}; systemctl restart {service}",),
    )


SCENARIO = Scenario(
    name="backlog-slow-consumer",
    group="jobs",
    summary="a consumer that pauses between jobs lets its queue grow",
    draw=draw,
)
