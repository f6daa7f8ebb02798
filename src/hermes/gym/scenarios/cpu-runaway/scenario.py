"""The pause between two looks into the inbox was set to nothing: a core burns for no work."""

from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import Premises, alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Script, Story, Traffic, Trigger

TEXTS = texts(__file__)

BODY = """\
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


def _idles(place: Premises) -> str:
    """Its threads, however started, seldom run and seldom wait for their turn to run.

    On a busy machine a loop runs less, but wants as much; and one that wants little may wait long.
    """
    return f"""python3 -S - <<'END'
import os, sys, time
def times():
    ran = waited = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"{place.program}" in open(f"/proc/{{pid}}/cmdline", "rb").read().split(b"\\0"):
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


def _takes(inbox: str, done: str) -> str:
    return (
        f"cd {inbox} || exit 1; name=check-$RANDOM$RANDOM; echo x > .$name; mv .$name $name; "
        f"for i in $(seq 150); do test -e {done}/$name && rm {done}/$name && exit 0; sleep 0.02; "
        "done; exit 1"
    )


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    unit_of_time = dice.pick(("ms", "s"))
    scale = 1000.0 if unit_of_time == "ms" else 1.0
    name = dice.pick(("poll_interval", "scan_every", "sleep_between", "poll", "refresh"))
    key = f"{name}_{unit_of_time}"
    right = dice.number(40, 120) if unit_of_time == "ms" else dice.number(4, 12) / 100
    wrong = dice.pick(("0", "0.0", "0.000", "00"))
    inbox, done = f"{place.data}/inbox", f"{place.data}/done"
    source = program(dice, BODY, key=key, scale=scale, polling=dice.wording(TEXTS["polling"]))
    settings = {key: right, "inbox": inbox, "done": done}
    kept = f"{place.data}/ledger.txt"
    files = (
        File(path=place.program, text=source),
        place.settings(port=place.port, **settings),
        File(path=kept, text=f"{dice.token()}\n" * dice.number(3, 30)),
        *beside.files,
    )
    idles = Script(name="it does not burn a core", script=_idles(place))
    takes = Script(name="what comes in is taken", script=_takes(inbox, done))
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                folders=(inbox, done),
                units=(unit(service, place.command), beside.unit),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P3", service=service, host=host, port=place.port),
        healthy=(
            Http(name="it answers", port=place.port, path="/health"),
            takes,
            idles,
            Running(name="its unit runs", unit=place.unit),
            beside.answers,
        ),
        symptoms=(idles,),
        inject=(
            changes(
                dice, dice.wording(TEXTS["causes"]).format(service=service, key=key, old=right)
            ),
            f"{place.put(key, wrong)} && systemctl restart {service}",
        ),
        cure=(Trigger(restart=(place.unit,)),),
        collateral=(
            *beside.unharmed,
            Same(name="its ledger", path=kept),
            Same(name="the program", path=place.program),
        ),
        fault=Fault(
            component=(place.conf,),
            mechanism=("busy loop", "busy-loop", "spin", "without pause", "no pause", "polling"),
            value=(f"{key}{place.sign}{wrong}", key),
        ),
        reference=(f"{place.put(key, right)} && systemctl restart {service}",),
        relief=(f"systemctl stop {service}",),
        shortcut=(f"rm -rf {place.data}; sleep 0.1",),
        traffic=(Traffic(port=place.port, paths=("/health",), pause=0.5),),
    )


SCENARIO = Scenario(
    name="cpu-runaway",
    group="classic",
    summary="a poll interval of zero makes the service spin",
    draw=draw,
)
