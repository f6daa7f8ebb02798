"""Somebody edited a setting on the host; what was declared in git is something else."""

import hashlib

from hermes.gym.dice import Dice
from hermes.gym.parts.hands import asking, remembered, served_by
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import alert, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Same, Script, Story, Trigger

TEXTS = texts(__file__)

BODY = """\
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

CHECKOUT = """\
#!/bin/bash
# Brings the declared state of this host to {repo}, from the copy that arrives with deployments.
export HOME=/root
test -d {repo} && exit 0
rm -rf {repo}.new && git init -q -b main {repo}.new && cd {repo}.new || exit 1
git fast-import --quiet < {stream} && git reset -q --hard && mv {repo}.new {repo}
"""


def stream(files: list[File], people: list[str], subjects: list[str]) -> str:
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


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    key = dice.pick(("max_requests", "rate_limit", "burst", "requests_per_minute", "ceiling"))
    right, wrong, mark = dice.number(20_000, 90_000), dice.number(0, 1), dice.token()
    repo = dice.pick(("/srv/declared", "/srv/infra", "/opt/config-repo", "/var/lib/desired"))
    secret, who = f"/etc/{service}-secret/key", dice.pick(("mira", "jonas", "tomas", "priya"))
    own = place.settings(
        port=place.port, mark=mark, secret_file=secret, timeout=dice.number(5, 60), **{key: right}
    )
    declared = [own, beside.files[1], File(path="/README", text=f"What {host} should be.\n")]
    subjects = [f"{service}: settings", f"{other}: settings", "say what this is"]
    history = stream(declared, [dice.pick(("mira", "lena", "ci")) for _ in subjects], subjects)
    command, bundle = f"/opt/{service}-declared/checkout.sh", f"/opt/{service}-declared/history.fi"
    files = (
        File(
            path=place.program,
            text=program(
                dice, BODY.replace("%%key%%", key), refused=dice.wording(TEXTS["refused"])
            ),
        ),
        own,
        File(path=secret, text=dice.token(32), mode=0o600),
        File(path=command, text=CHECKOUT.format(repo=repo, stream=bundle), mode=0o755),
        File(path=bundle, text=history),
        *beside.files,
    )
    digest = hashlib.sha256(own.text.encode()).hexdigest()
    serves = Http(name="requests are let in", port=place.port, path="/items", contains=mark)
    undrifted = Script(
        name="the settings are those declared", script=f"sha256sum {own.path}", contains=digest
    )
    clean = Script(
        name="the declared state is untouched",
        script=f"git -C {repo} show HEAD:{own.path.lstrip('/')} | sha256sum;"
        f" git --no-optional-locks -C {repo} status --porcelain;"
        f" git -C {repo} rev-list --count HEAD",
        contains=f"{digest}  -\n{len(subjects)}\n",
    )
    edit = place.put(key, wrong)
    fetch = "Type=oneshot\nRemainAfterExit=yes"
    checkout = unit("declared-state", command, more=fetch)
    checkout = File(
        path=checkout.path, text=checkout.text.replace("Restart=on-failure\nRestartSec=200ms\n", "")
    )
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                users=(who,),
                units=(unit(service, place.command), beside.unit, checkout),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P2", service=service, host=host, port=place.port),
        healthy=(
            serves,
            undrifted,
            clean,
            served_by(place.unit, place.port),
            beside.answers,
        ),
        symptoms=(serves,),
        inject=(
            remembered(dice, f"su {who}", edit, f"systemctl restart {service}"),
            f"mkdir -p /home/{who} && {{ date -d '-{dice.number(9, 90)} min' '+#%s';"
            f' echo "{edit}"; }} >> /home/{who}/.bash_history',
            f"{edit} && systemctl restart {service}",
            f"sleep 0.1; {asking(place.port, '/items', 2)}",
        ),
        cure=(Trigger(restart=(place.unit,)),),
        collateral=(
            *beside.unharmed,
            clean,
            Same(name="the secret that is not in git", path=secret),
            Same(name="the program", path=place.program),
        ),
        fault=Fault(
            component=(own.path, service, own.path.rpartition("/")[2]),
            mechanism=("drift", "manual edit", "differs from git", "edited by hand", key),
            value=(f"{key}{place.sign}{wrong}", key, who),
        ),
        reference=(
            f"git -C {repo} diff --no-index --stat {repo}{own.path} {own.path} || true",
            f"cp {repo}{own.path} {own.path} && systemctl restart {service}",
        ),
        relief=(f"systemctl restart {service}",),
        shortcut=(
            f"rm -rf /etc/{service}-secret; cp {repo}{own.path} {own.path}",
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
