"""A service sends an expired token; the job that renews it requests one with no lifetime."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    TrafficSpec,
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

ISSUER_PROGRAM = """\
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

REQUEST_SOURCE = """\
def ask(port, path):
    line = socket.create_connection(("127.0.0.1", port), 2)
    line.sendall(f"GET {path} HTTP/1.0\\r\\n\\r\\n".encode())
    head, _, body = line.makefile("rb").read().partition(b"\\r\\n\\r\\n")
    return int(head.split()[1]), json.loads(body)

conf = settings(sys.argv[1])
"""

CLIENT_SOURCE = """\
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

RENEW_SOURCE = """\
_, said = ask(int(conf["issuer_port"]), f"/issue?{conf['name']}&{conf['%%key%%']}")
with open(conf["token"] + ".new", "w") as file:
    file.write(said["token"] + "\\n")
os.rename(conf["token"] + ".new", conf["token"])
"""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, upstream, other = rng.services(3)
    layout, issuer, neighbour = (
        draw_layout(rng, service),
        draw_layout(rng, upstream),
        draw_neighbour(rng, other),
    )
    host, mark = rng.host(), rng.token()
    key = rng.pick(("lifetime_hours", "valid_hours", "ttl_hours", "hours"))
    right, wrong = rng.number(12, 96), rng.pick(("0", "0.0", "-1", "-24"))
    token = rng.pick(
        (f"/etc/{service}/token", f"{layout.data}/access.token", f"/var/lib/{service}.tok")
    )
    tool = f"/opt/{rng.pick(('tokens', 'auth', 'renewal'))}-{service}"
    settings_file = HostFile(
        path=f"{tool}/renew.conf",
        text=f"name={service}\nissuer_port={issuer.port}\ntoken={token}\n{key}={right}\n",
    )
    run = f"{PYTHON_COMMAND} {tool}/renew.py {settings_file.path}"
    files = (
        HostFile(
            path=issuer.program,
            text=render_program(rng, ISSUER_PROGRAM, why=rng.wording(TEXTS["why"])),
        ),
        issuer.settings(
            port=issuer.port, secret=f"{issuer.data}/secret", mark=mark, verify_end="yes"
        ),
        HostFile(path=f"{issuer.data}/secret", text=rng.token(40), mode=0o600),
        HostFile(
            path=layout.program,
            text=render_program(
                rng, REQUEST_SOURCE + CLIENT_SOURCE, refused=rng.wording(TEXTS["refused"])
            ),
        ),
        layout.settings(
            port=layout.port, upstream=upstream, upstream_port=issuer.port, token=token
        ),
        HostFile(
            path=f"{tool}/renew.py",
            text=render_program(rng, REQUEST_SOURCE + RENEW_SOURCE.replace("%%key%%", key)),
        ),
        settings_file,
        HostFile(
            path=f"/etc/cron.d/renew-{service}", text=f"7 * * * * root {run} >/dev/null 2>&1\n"
        ),
        *neighbour.files,
    )
    first = f"/bin/sh -c '{PYTHON_COMMAND} {tool}/renew.py {settings_file.path}'"
    serves = HttpCheck(name="its data comes", port=layout.port, path="/data", contains=mark)
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                folders=(token.rpartition("/")[0],),
                units=(
                    service_unit(upstream, issuer.command),
                    service_unit(service, layout.command, after=issuer.unit),
                    _first_token_unit(service, first, issuer.unit),
                    neighbour.unit,
                ),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(
            serves,
            UnitRunningCheck(name="its unit runs", unit=layout.unit),
            neighbour.answers,
        ),
        symptoms=(serves,),
        inject=(
            change_log_script(rng),
            shell_history_script(rng, f"vi {settings_file.path}"),
            f"sed -i 's/^{key}=.*/{key}={wrong}/' {settings_file.path} && {run}",
        ),
        cure=(FaultTrigger(cron="renew.py"),),
        collateral=(
            *neighbour.unharmed,
            UnitRunningCheck(
                name="the upstream was left alone", unit=issuer.unit, undisturbed=True
            ),
            UnchangedCheck(name="the settings of the upstream", path=issuer.conf),
            UnchangedCheck(name="the secret of the upstream", path=issuer.data),
            UnchangedCheck(name="the settings of the service", path=layout.conf),
            UnchangedCheck(name="the timetable", path="/etc/cron.d"),
            other_settings_unchanged("the other settings of the renewal", settings_file, key),
        ),
        fault=FaultDescription(
            component=(token, settings_file.path, service, "token"),
            mechanism=("expired", "expiry", "lifetime", "stale token", "401"),
            value=(key, f"{key}={wrong}", token),
        ),
        reference=(f"sed -i 's/^{key}=.*/{key}={right}/' {settings_file.path}", run),
        relief=(
            f"sed 's/^{key}=.*/{key}=8/' {settings_file.path} > /tmp/once.conf",
            f"{PYTHON_COMMAND} {tool}/renew.py /tmp/once.conf",
        ),
        shortcut=(issuer.put("verify_end", "no"), f"systemctl restart {upstream}"),
        traffic=(TrafficSpec(port=layout.port, paths=("/data", "/health")),),
    )


def _first_token_unit(service: str, command: str, after: str) -> HostFile:
    """Gets the first token when the host starts; retries until the upstream answers."""
    unit_text = f"[Unit]\nDescription=First token of {service}\nAfter={after}\n\n[Service]\n"
    more = "Type=oneshot\nRemainAfterExit=yes\nRestart=on-failure\nRestartSec=50ms\n"
    limit = "StartLimitBurst=100\n"
    return HostFile(
        path=f"{service}-token.service",
        text=f"{unit_text}{more}{limit}ExecStart={command}\n\n[Install]\nWantedBy=multi-user.target\n",
    )


SCENARIO = Scenario(
    name="expired-token",
    group="change",
    summary="the renewal asks for tokens without any life; the upstream answers 401",
    draw=draw,
    held_out=True,
)
