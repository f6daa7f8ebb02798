"""A service sends an expired token; the job that renews it requests one with no lifetime."""

from hermes.gym.scenario_builder import (
    PYTHON_COMMAND,
    HostFile,
    ScenarioBuilder,
    build_scenario,
    other_settings_unchanged,
)

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


FIRST_TOKEN_UNIT = """\
[Unit]
Description=First token of {service}
After={after}

[Service]
Type=oneshot
RemainAfterExit=yes
Restart=on-failure
RestartSec=50ms
StartLimitBurst=100
ExecStart=/bin/sh -c '{run}'

[Install]
WantedBy=multi-user.target
"""
"""Gets the first token when the host starts; retries until the upstream answers."""


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, issuer = build.draw_services(2)
    mark = rng.token()
    key = rng.pick(("lifetime_hours", "valid_hours", "ttl_hours", "hours"))
    right, wrong = rng.number(12, 96), rng.pick(("0", "0.0", "-1", "-24"))
    token = rng.pick(
        (f"/etc/{app.name}/token", f"{app.data}/access.token", f"/var/lib/{app.name}.tok")
    )
    tool = f"/opt/{rng.pick(('tokens', 'auth', 'renewal'))}-{app.name}"
    conf = f"{tool}/renew.conf"
    run = f"{PYTHON_COMMAND} {tool}/renew.py {conf}"
    build.start(issuer, ISSUER_PROGRAM, why=build.wording("why"))
    build.settings(
        issuer, port=issuer.port, secret=f"{issuer.data}/secret", mark=mark, verify_end="yes"
    )
    build.file(f"{issuer.data}/secret", rng.token(40), mode=0o600)
    build.start(
        app, REQUEST_SOURCE + CLIENT_SOURCE, after=issuer.unit, refused=build.wording("refused")
    )
    build.settings(app, port=app.port, upstream=issuer.name, upstream_port=issuer.port, token=token)
    build.file(
        f"{tool}/renew.py", build.render(REQUEST_SOURCE + RENEW_SOURCE.replace("%%key%%", key))
    )
    values = f"name={app.name}\nissuer_port={issuer.port}\ntoken={token}\n{key}={right}\n"
    renewal = build.file(conf, values)
    build.file(f"/etc/cron.d/renew-{app.name}", f"7 * * * * root {run} >/dev/null 2>&1\n")
    build.folders(token.rpartition("/")[0])
    unit = FIRST_TOKEN_UNIT.format(service=app.name, after=issuer.unit, run=run)
    build.units(HostFile(path=f"{app.name}-token.service", text=unit))

    put = f"sed -i 's/^{key}=.*/{key}={{}}/' {conf}"
    build.alert("P1")
    build.symptoms(app.http("its data comes", "/data", mark))
    build.healthy(app.runs())
    build.inject(build.changes(), build.history(f"vi {conf}"), f"{put.format(wrong)} && {run}")
    build.trigger(cron="renew.py")
    build.collateral(
        issuer.undisturbed("the upstream was left alone"),
        ("the settings of the upstream", issuer.conf),
        ("the secret of the upstream", issuer.data),
        ("the settings of the service", app.conf),
        ("the timetable", "/etc/cron.d"),
        other_settings_unchanged("the other settings of the renewal", renewal, key),
    )
    build.fault(
        component=(token, conf, app.name, "token"),
        mechanism="expired, expiry, lifetime, stale token, 401",
        value=(key, f"{key}={wrong}", token),
    )
    build.responses(
        reference=(put.format(right), run),
        relief=(
            f"sed 's/^{key}=.*/{key}=8/' {conf} > /tmp/once.conf",
            f"{PYTHON_COMMAND} {tool}/renew.py /tmp/once.conf",
        ),
        shortcut=(issuer.put("verify_end", "no"), issuer.restart),
    )
    build.traffic("/data", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "change",
    "the renewal asks for tokens without any life; the upstream answers 401",
    held_out=True,
)
