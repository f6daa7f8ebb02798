"""A setting was edited on the host and differs from what is declared in git."""

import hashlib

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
)
from hermes.gym.services.python_service import (
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.shell_scripts import requests_script, served_by_unit, shell_history_script

TEXTS = texts(__file__)

SERVICE_PROGRAM = """\
conf = settings(sys.argv[1])
if not open(conf["secret_file"]).read().strip():
    fatal(f"{conf['secret_file']} is empty")
times = []

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    now, limit = time.time(), int(conf["%%key%%"])
    times[:] = [at for at in times if now - at < 60]
    if len(times) >= limit:
        log("WARN", %%refused%%.format(limit=limit))
        return 429, {"error": "slow down"}
    times.append(now)
    return 200, {"items": [conf["mark"]]}

serve(int(conf["port"]), answer)
"""

CHECKOUT_SCRIPT = """\
#!/bin/bash
# Brings the declared state of this host to {repo}, from the copy that arrives with deployments.
export HOME=/root
test -d {repo} && exit 0
rm -rf {repo}.new && git init -q -b main {repo}.new && cd {repo}.new || exit 1
git fast-import --quiet < {stream} && git reset -q --hard && mv {repo}.new {repo}
"""


def fast_import_stream(files: list[HostFile], people: list[str], subjects: list[str]) -> str:
    """The history in the form that `git fast-import` reads."""
    lines = []
    for number, (who, subject) in enumerate(zip(people, subjects, strict=True)):
        at = 1_780_000_000 + number * 86_400
        lines += ["commit refs/heads/main", f"committer {who} <{who}@ops.example> {at} +0000"]
        lines += [f"data {len(subject.encode())}", subject]
        for file in files[: number + 1]:
            lines += [f"M 100644 inline {file.path.lstrip('/')}"]
            lines += [f"data {len(file.text.encode())}", file.text]
    return "\n".join(lines) + "\ndone\n"


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    key = rng.pick(("max_requests", "rate_limit", "burst", "requests_per_minute", "ceiling"))
    right, wrong, mark = rng.number(20_000, 90_000), rng.number(0, 1), rng.token()
    repo = rng.pick(("/srv/declared", "/srv/infra", "/opt/config-repo", "/var/lib/desired"))
    secret, who = f"/etc/{service}-secret/key", rng.pick(("mira", "jonas", "tomas", "priya"))
    settings_file = layout.settings(
        port=layout.port, mark=mark, secret_file=secret, timeout=rng.number(5, 60), **{key: right}
    )
    declared = [
        settings_file,
        neighbour.files[1],
        HostFile(path="/README", text=f"What {host} should be.\n"),
    ]
    subjects = [f"{service}: settings", f"{other}: settings", "say what this is"]
    history = fast_import_stream(
        declared, [rng.pick(("mira", "lena", "ci")) for _ in subjects], subjects
    )
    command, bundle = f"/opt/{service}-declared/checkout.sh", f"/opt/{service}-declared/history.fi"
    files = (
        HostFile(
            path=layout.program,
            text=render_program(
                rng, SERVICE_PROGRAM.replace("%%key%%", key), refused=rng.wording(TEXTS["refused"])
            ),
        ),
        settings_file,
        HostFile(path=secret, text=rng.token(32), mode=0o600),
        HostFile(path=command, text=CHECKOUT_SCRIPT.format(repo=repo, stream=bundle), mode=0o755),
        HostFile(path=bundle, text=history),
        *neighbour.files,
    )
    digest = hashlib.sha256(settings_file.text.encode()).hexdigest()
    serves = HttpCheck(name="requests are let in", port=layout.port, path="/items", contains=mark)
    undrifted = ScriptCheck(
        name="the settings are those declared",
        script=f"sha256sum {settings_file.path}",
        contains=digest,
    )
    clean = ScriptCheck(
        name="the declared state is untouched",
        script=f"git -C {repo} show HEAD:{settings_file.path.lstrip('/')} | sha256sum;"
        f" git --no-optional-locks -C {repo} status --porcelain;"
        f" git -C {repo} rev-list --count HEAD",
        contains=f"{digest}  -\n{len(subjects)}\n",
    )
    edit = layout.put(key, wrong)
    fetch = "Type=oneshot\nRemainAfterExit=yes"
    checkout = service_unit("declared-state", command, more=fetch)
    checkout = HostFile(
        path=checkout.path, text=checkout.text.replace("Restart=on-failure\nRestartSec=200ms\n", "")
    )
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                users=(who,),
                units=(service_unit(service, layout.command), neighbour.unit, checkout),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P2", service=service, host=host, port=layout.port),
        healthy=(
            serves,
            undrifted,
            clean,
            served_by_unit(layout.unit, layout.port),
            neighbour.answers,
        ),
        symptoms=(serves,),
        inject=(
            shell_history_script(rng, f"su {who}", edit, f"systemctl restart {service}"),
            f"mkdir -p /home/{who} && {{ date -d '-{rng.number(9, 90)} min' '+#%s';"
            f' echo "{edit}"; }} >> /home/{who}/.bash_history',
            f"{edit} && systemctl restart {service}",
            f"sleep 0.1; {requests_script(layout.port, '/items', 2)}",
        ),
        cure=(FaultTrigger(restart=(layout.unit,)),),
        collateral=(
            *neighbour.unharmed,
            clean,
            UnchangedCheck(name="the secret that is not in git", path=secret),
            UnchangedCheck(name="the program", path=layout.program),
        ),
        fault=FaultDescription(
            component=(settings_file.path, service, settings_file.path.rpartition("/")[2]),
            mechanism=("drift", "manual edit", "differs from git", "edited by hand", key),
            value=(f"{key}{layout.sign}{wrong}", key, who),
        ),
        reference=(
            f"git -C {repo} diff --no-index --stat {repo}{settings_file.path} "
            f"{settings_file.path} || true",
            f"cp {repo}{settings_file.path} {settings_file.path} && systemctl restart {service}",
        ),
        relief=(f"systemctl restart {service}",),
        shortcut=(
            f"rm -rf /etc/{service}-secret; cp {repo}{settings_file.path} {settings_file.path}",
            f"install -D -m 600 /dev/stdin {secret} <<< new && systemctl restart {service}",
        ),
    )


SCENARIO = Scenario(
    name="drift-from-git",
    group="change",
    summary="a setting edited by hand differs from what git declares for this host",
    draw=draw,
    needs=("git",),
)
