"""A service shows an expired token; the job that renews it asks for one without any life."""

from hermes.gym.dice import Dice
from hermes.gym.parts.hands import others_kept, remembered
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import PYTHON, alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Story, Traffic, Trigger

TEXTS = texts(__file__)

GIVER = """\
import hashlib

conf = settings(sys.argv[1])
secret = open(conf["secret"]).read().strip()

def signed(text):
    return f"{text}.{hashlib.sha256((secret + text).encode()).hexdigest()[:24]}"

def answer(path):
    where, _, query = path.partition("?")
    if where == "/issue":
        name, _, hours = query.partition("&")
        return 200, {"token": signed(f"{name}.{int(time.time() + float(hours) * 3600)}")}
    if where == "/data":
        name, end = (query.split(".") + ["0", ""])[:2]
        if signed(f"{name}.{end}") != query:
            return 401, {"error": "bad signature"}
        if conf["verify_end"] == "yes" and int(end) <= time.time():
            return 401, {"error": %%why%%}
        return 200, {"data": conf["mark"]}
    return 200, {"status": "ok"}

serve(int(conf["port"]), answer)
"""

ASKER = """\
def ask(port, path):
    line = socket.create_connection(("127.0.0.1", port), 2)
    line.sendall(f"GET {path} HTTP/1.0\\r\\n\\r\\n".encode())
    head, _, body = line.makefile("rb").read().partition(b"\\r\\n\\r\\n")
    return int(head.split()[1]), json.loads(body)

conf = settings(sys.argv[1])
"""

CLIENT = """\
def answer(path):
    if path != "/data":
        return 200, {"status": "ok"}
    try:
        token = open(conf["token"]).read().strip()
        status, said = ask(int(conf["upstream_port"]), f"/data?{token}")
    except OSError as error:
        return 502, {"error": str(error)}
    if status != 200:
        log("ERROR", %%refused%%.format(upstream=conf["upstream"], why=said["error"]))
        return 502, {"error": "upstream"}
    return 200, said

serve(int(conf["port"]), answer)
"""

RENEW = """\
_, said = ask(int(conf["issuer_port"]), f"/issue?{conf['name']}&{conf['%%key%%']}")
with open(conf["token"] + ".new", "w") as file:
    file.write(said["token"] + "\\n")
os.rename(conf["token"] + ".new", conf["token"])
"""


def draw(dice: Dice) -> Story:
    service, upstream, other = dice.services(3)
    place, giver, beside = premises(dice, service), premises(dice, upstream), neighbour(dice, other)
    host, mark = dice.host(), dice.token()
    key = dice.pick(("lifetime_hours", "valid_hours", "ttl_hours", "hours"))
    right, wrong = dice.number(12, 96), dice.pick(("0", "0.0", "-1", "-24"))
    token = dice.pick(
        (f"/etc/{service}/token", f"{place.data}/access.token", f"/var/lib/{service}.tok")
    )
    tool = f"/opt/{dice.pick(('tokens', 'auth', 'renewal'))}-{service}"
    own = File(
        path=f"{tool}/renew.conf",
        text=f"name={service}\nissuer_port={giver.port}\ntoken={token}\n{key}={right}\n",
    )
    run = f"{PYTHON} {tool}/renew.py {own.path}"
    files = (
        File(path=giver.program, text=program(dice, GIVER, why=dice.wording(TEXTS["why"]))),
        giver.settings(port=giver.port, secret=f"{giver.data}/secret", mark=mark, verify_end="yes"),
        File(path=f"{giver.data}/secret", text=dice.token(40), mode=0o600),
        File(
            path=place.program,
            text=program(dice, ASKER + CLIENT, refused=dice.wording(TEXTS["refused"])),
        ),
        place.settings(port=place.port, upstream=upstream, upstream_port=giver.port, token=token),
        File(path=f"{tool}/renew.py", text=program(dice, ASKER + RENEW.replace("%%key%%", key))),
        own,
        File(path=f"/etc/cron.d/renew-{service}", text=f"7 * * * * root {run} >/dev/null 2>&1\n"),
        *beside.files,
    )
    first = f"/bin/sh -c '{PYTHON} {tool}/renew.py {own.path}'"
    serves = Http(name="its data comes", port=place.port, path="/data", contains=mark)
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                folders=(token.rpartition("/")[0],),
                units=(
                    unit(upstream, giver.command),
                    unit(service, place.command, after=giver.unit),
                    _first(service, first, giver.unit),
                    beside.unit,
                ),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(serves, Running(name="its unit runs", unit=place.unit), beside.answers),
        symptoms=(serves,),
        inject=(
            changes(dice),
            remembered(dice, f"vi {own.path}"),
            f"sed -i 's/^{key}=.*/{key}={wrong}/' {own.path} && {run}",
        ),
        cure=(Trigger(cron="renew.py"),),
        collateral=(
            *beside.unharmed,
            Running(name="the upstream was left alone", unit=giver.unit, undisturbed=True),
            Same(name="the settings of the upstream", path=giver.conf),
            Same(name="the secret of the upstream", path=giver.data),
            Same(name="the settings of the service", path=place.conf),
            Same(name="the timetable", path="/etc/cron.d"),
            others_kept("the other settings of the renewal", own, key),
        ),
        fault=Fault(
            component=(token, own.path, service, "token"),
            mechanism=("expired", "expiry", "lifetime", "stale token", "401"),
            value=(key, f"{key}={wrong}", token),
        ),
        reference=(f"sed -i 's/^{key}=.*/{key}={right}/' {own.path}", run),
        relief=(
            f"sed 's/^{key}=.*/{key}=8/' {own.path} > /tmp/once.conf",
            f"{PYTHON} {tool}/renew.py /tmp/once.conf",
        ),
        shortcut=(giver.put("verify_end", "no"), f"systemctl restart {upstream}"),
        traffic=(Traffic(port=place.port, paths=("/data", "/health")),),
    )


def _first(service: str, command: str, after: str) -> File:
    """A token for the start of the host; tried until the upstream answers."""
    told = f"[Unit]\nDescription=First token of {service}\nAfter={after}\n\n[Service]\n"
    more = "Type=oneshot\nRemainAfterExit=yes\nRestart=on-failure\nRestartSec=50ms\n"
    limit = "StartLimitBurst=100\n"
    return File(
        path=f"{service}-token.service",
        text=f"{told}{more}{limit}ExecStart={command}\n\n[Install]\nWantedBy=multi-user.target\n",
    )


SCENARIO = Scenario(
    name="expired-token",
    group="change",
    summary="the renewal asks for tokens without any life; the upstream answers 401",
    draw=draw,
    held_out=True,
)
