"""The backup job fails every time and tells nobody: its words go to /dev/null."""

from hermes.core.messages import Value
from hermes.gym.dice import Dice
from hermes.gym.parts.hands import remembered
from hermes.gym.parts.microweb import SHELF, program
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Same, Script, Story, Trigger

TEXTS = texts(__file__)

JOB = """\
#!/bin/bash
# Copies {data} to the folder that {conf} names; one run at a time.
set -eu
target=$(sed -n 's/^target=//p' {conf})
if [ -e {lock} ]; then
    echo "another run is at work ({lock})" >&2
    exit 1
fi
echo $$ > {lock}
trap 'rm -f {lock}' EXIT
cp {data} "$target/.part"
mv "$target/.part" "$target/{stem}-$(date +%s%N).tsv"
"""


class Break(Value, kw_only=True, frozen=True):
    """One of the ways in which such a job stops working."""

    inject: str
    mend: str
    component: str
    mechanism: tuple[str, ...]
    value: str


def breaks(job: str, conf: str, target: str, lock: str, typo: str) -> tuple[Break, ...]:
    return (
        Break(
            inject=f"sed -i 's|^target=.*|target={typo}|' {conf}",
            mend=f"sed -i 's|^target=.*|target={target}|' {conf}",
            component=conf,
            mechanism=("no such", "wrong target", "does not exist", "wrong path"),
            value=typo,
        ),
        Break(
            inject=f"echo 31999 > {lock}",
            mend=f"rm -f {lock}",
            component=lock,
            mechanism=("stale lock", "lock file", "lock left", "another run"),
            value=lock,
        ),
        Break(
            inject=f"chmod a-x {job}",
            mend=f"chmod a+x {job}",
            component=job,
            mechanism=("not executable", "permission denied", "execute bit", "lost its mode"),
            value=job,
        ),
    )


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    mark, stem, hours = dice.token(), dice.word(), dice.number(26, 90)
    data, shelf = f"{place.data}/{stem}.tsv", f"{place.data}/items.json"
    target = f"{dice.pick(('/backup', '/srv/backups', '/mnt/vault', '/var/backups'))}/{service}"
    name = f"{dice.pick(('backup', 'copy', 'snapshot', 'dump'))}-{service}"
    job, lock = f"/opt/{dice.pick(('jobs', 'cron', 'ops'))}/{name}", f"/run/lock/{name}.lock"
    conf = f"/etc/{name}.conf"
    typo = dice.pick(
        (f"{target}s", target.upper(), f"{target}/daily", target.replace("/", "/x", 1))
    )
    broken = dice.pick(breaks(job, conf, target, lock, typo))
    rows = "".join(f"{dice.token()}\t{dice.number(1, 99)}\n" for _ in range(40))
    old = [f"{target}/{stem}-{dice.number(10**18, 2 * 10**18)}.tsv" for _ in range(3)]
    files = (
        File(path=place.program, text=program(dice, SHELF)),
        place.settings(port=place.port, data=shelf),
        File(path=shelf, text=f'["{mark}"]'),
        File(path=data, text=rows),
        File(path=job, text=JOB.format(data=data, conf=conf, lock=lock, stem=stem), mode=0o755),
        File(path=conf, text=f"target={target}\n"),
        File(
            path=f"/etc/cron.d/{name}",
            text=f"{dice.number(0, 59)} {dice.number(0, 6)} * * * root {job} >/dev/null 2>&1\n",
        ),
        *(File(path=path, text=rows) for path in old),
        *beside.files,
    )
    fresh = Script(
        name="some backup has all that the data has",
        script=f"for f in {target}/{stem}-*; do"
        f' test -L "$f" || cmp -s "$f" {data} && exit 0; done; exit 1',
    )
    more = f"printf '{dice.token()}\\t1\\n{dice.token()}\\t2\\n' >> {data}"
    facts = {"service": service, "host": host, "port": place.port, "hours": hours}
    return Story(
        hosts=(Host(name=host, files=files, units=(unit(service, place.command), beside.unit)),),
        alert=alert(dice, TEXTS["alerts"], "P2", **facts),
        healthy=(
            fresh,
            Http(name="the service answers", port=place.port, path="/items", contains=mark),
            beside.answers,
        ),
        symptoms=(fresh,),
        inject=(
            changes(dice),
            remembered(dice, f"ls -l {target}"),
            f"{broken.inject}; {job} >/dev/null 2>&1; touch -d '-{hours} hours' {target}/*",
            more,
        ),
        cure=(
            Trigger(script=more.replace("1\\n", "3\\n")),
            Trigger(cron=name),
        ),
        collateral=(
            *beside.unharmed,
            Same(name="the data", path=data, may_grow=True),
            *(Same(name=f"backup {path}", path=path) for path in old),
            Same(name="the timetable", path=f"/etc/cron.d/{name}"),
        ),
        fault=Fault(
            component=(broken.component, name, job),
            mechanism=broken.mechanism,
            value=(broken.value, broken.component),
        ),
        reference=(broken.mend, job),
        relief=(f"cp {data} {target}/{stem}-$(date +%s%N).tsv",),
        shortcut=(broken.mend, f"rm -f {target}/*; {job}"),
    )


SCENARIO = Scenario(
    name="cron-failing-silently",
    group="jobs",
    summary="a backup job has been failing unseen, and the newest copy is old",
    draw=draw,
)
