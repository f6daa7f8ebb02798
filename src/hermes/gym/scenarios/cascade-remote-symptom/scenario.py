"""The page fails, because what it asks fails, because what that asks became slow."""

from hermes.gym.dice import Dice
from hermes.gym.parts.compose import with_decoy
from hermes.gym.parts.hands import others_kept
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Story, Traffic, Trigger

TEXTS = texts(__file__)

LINK = """\
conf = settings(sys.argv[1])
limit = float(conf["timeout"])

def fetch():
    with socket.create_connection(("127.0.0.1", int(conf["upstream_port"])), limit) as line:
        line.settimeout(limit)
        line.sendall(b"GET /data HTTP/1.0\\r\\n\\r\\n")
        head, _, body = line.makefile("rb").read().partition(b"\\r\\n\\r\\n")
        return int(head.split()[1]), json.loads(body)

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    try:
        status, body = fetch()
    except (OSError, IndexError, ValueError):
        log("ERROR", %%waited%%.format(upstream=conf["upstream"], limit=limit))
        return 504, {"error": "upstream"}
    return status, body

serve(int(conf["port"]), answer)
"""

LAST = """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    time.sleep(float(conf["%%key%%"]) / 1000)
    return 200, {"data": conf["mark"]}

serve(int(conf["port"]), answer)
"""


def draw(dice: Dice) -> Story:
    names = dice.services(4)
    front, middle, last = (premises(dice, name) for name in names[:3])
    beside, host, mark = neighbour(dice, names[3]), dice.host(), dice.token()
    key = dice.pick(("sync_ms", "write_delay_ms", "scan_ms", "poll_ms", "flush_ms"))
    right, wrong = dice.number(0, 3), dice.number(1500, 9000)
    waited = dice.wording(TEXTS["waited"])
    own = last.settings(port=last.port, mark=mark, rows=dice.number(100, 999), **{key: right})
    files = (
        File(path=front.program, text=program(dice, LINK, waited=waited)),
        front.settings(
            port=front.port, upstream=middle.name, upstream_port=middle.port, timeout=0.7
        ),
        File(path=middle.program, text=program(dice, LINK, waited=waited)),
        middle.settings(port=middle.port, upstream=last.name, upstream_port=last.port, timeout=0.5),
        File(path=last.program, text=program(dice, LAST.replace("%%key%%", key))),
        own,
        *beside.files,
    )
    serves = Http(name="the page comes", port=front.port, path="/page", contains=mark)
    story = Story(
        hosts=(
            Host(
                name=host,
                files=files,
                units=(
                    *(unit(each.name, each.command) for each in (last, middle, front)),
                    beside.unit,
                ),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P1", service=front.name, host=host, port=front.port),
        healthy=(serves, Running(name="the last one runs", unit=last.unit), beside.answers),
        symptoms=(serves,),
        inject=(
            changes(dice, f"{front.name} restyled, new logo"),
            f"{last.put(key, wrong)} && systemctl restart {last.name}",
        ),
        cure=(Trigger(restart=(last.unit,)),),
        collateral=(
            *beside.unharmed,
            Same(name="the settings of the first", path=front.conf),
            Same(name="the settings of the second", path=middle.conf),
            Same(name="the program of the first", path=front.program),
            Same(name="the program of the second", path=middle.program),
            Same(name="the program of the last", path=last.program),
            others_kept("the other settings of the last", own, key),
        ),
        fault=Fault(
            component=(last.name, last.conf, last.unit),
            mechanism=("slow", "delay", "latency", key),
            value=(f"{wrong}", f"{key}{last.sign}{wrong}"),
        ),
        reference=(last.put(key, right), f"systemctl restart {last.name}"),
        relief=(f"systemctl restart {front.name} {middle.name} {last.name}",),
        shortcut=(
            f"{front.put('timeout', 60)}; {middle.put('timeout', 60)}; {last.put(key, 50)}",
            f"systemctl restart {front.name} {middle.name} {last.name}",
        ),
        traffic=(Traffic(port=front.port, paths=("/page", "/health")),),
    )
    return with_decoy(story, dice, TEXTS["decoys"])


SCENARIO = Scenario(
    name="cascade-remote-symptom",
    group="judgement",
    summary="the symptom is at the front, the cause two services behind it",
    draw=draw,
    held_out=True,
)
