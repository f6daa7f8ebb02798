"""The backup job fails every time, and its output goes to /dev/null."""

from hermes.core.messages import Value
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
    ITEM_LIST_PROGRAM,
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.shell_scripts import shell_history_script

TEXTS = texts(__file__)

JOB_SCRIPT = """\
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


class JobFault(Value, kw_only=True, frozen=True):
    """One way in which the job stops working."""

    inject: str
    fix: str
    component: str
    mechanism: tuple[str, ...]
    value: str


def job_faults(job: str, conf: str, target: str, lock: str, typo: str) -> tuple[JobFault, ...]:
    return (
        JobFault(
            inject=f"sed -i 's|^target=.*|target={typo}|' {conf}",
            fix=f"sed -i 's|^target=.*|target={target}|' {conf}",
            component=conf,
            mechanism=("no such", "wrong target", "does not exist", "wrong path"),
            value=typo,
        ),
        JobFault(
            inject=f"echo 31999 > {lock}",
            fix=f"rm -f {lock}",
            component=lock,
            mechanism=("stale lock", "lock file", "lock left", "another run"),
            value=lock,
        ),
        JobFault(
            inject=f"chmod a-x {job}",
            fix=f"chmod a+x {job}",
            component=job,
            mechanism=("not executable", "permission denied", "execute bit", "lost its mode"),
            value=job,
        ),
    )


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    mark, stem, hours = rng.token(), rng.word(), rng.number(26, 90)
    data, items_file = f"{layout.data}/{stem}.tsv", f"{layout.data}/items.json"
    target = f"{rng.pick(('/backup', '/srv/backups', '/mnt/vault', '/var/backups'))}/{service}"
    name = f"{rng.pick(('backup', 'copy', 'snapshot', 'dump'))}-{service}"
    job, lock = f"/opt/{rng.pick(('jobs', 'cron', 'ops'))}/{name}", f"/run/lock/{name}.lock"
    conf = f"/etc/{name}.conf"
    typo = rng.pick((f"{target}s", target.upper(), f"{target}/daily", target.replace("/", "/x", 1)))
    broken = rng.pick(job_faults(job, conf, target, lock, typo))
    rows = "".join(f"{rng.token()}\t{rng.number(1, 99)}\n" for _ in range(40))
    old = [f"{target}/{stem}-{rng.number(10**18, 2 * 10**18)}.tsv" for _ in range(3)]
    files = (
        HostFile(path=layout.program, text=render_program(rng, ITEM_LIST_PROGRAM)),
        layout.settings(port=layout.port, data=items_file),
        HostFile(path=items_file, text=f'["{mark}"]'),
        HostFile(path=data, text=rows),
        HostFile(
            path=job, text=JOB_SCRIPT.format(data=data, conf=conf, lock=lock, stem=stem), mode=0o755
        ),
        HostFile(path=conf, text=f"target={target}\n"),
        HostFile(
            path=f"/etc/cron.d/{name}",
            text=f"{rng.number(0, 59)} {rng.number(0, 6)} * * * root {job} >/dev/null 2>&1\n",
        ),
        *(HostFile(path=path, text=rows) for path in old),
        *neighbour.files,
    )
    fresh = ScriptCheck(
        name="some backup has all that the data has",
        script=f"for f in {target}/{stem}-*; do"
        f' test -L "$f" || cmp -s "$f" {data} && exit 0; done; exit 1',
    )
    more = f"printf '{rng.token()}\\t1\\n{rng.token()}\\t2\\n' >> {data}"
    facts = {"service": service, "host": host, "port": layout.port, "hours": hours}
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                units=(service_unit(service, layout.command), neighbour.unit),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P2", **facts),
        healthy=(
            fresh,
            HttpCheck(name="the service answers", port=layout.port, path="/items", contains=mark),
            neighbour.answers,
        ),
        symptoms=(fresh,),
        inject=(
            change_log_script(rng),
            shell_history_script(rng, f"ls -l {target}"),
            f"{broken.inject}; {job} >/dev/null 2>&1; touch -d '-{hours} hours' {target}/*",
            more,
        ),
        cure=(
            FaultTrigger(script=more.replace("1\\n", "3\\n")),
            FaultTrigger(cron=name),
        ),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="the data", path=data, may_grow=True),
            *(UnchangedCheck(name=f"backup {path}", path=path) for path in old),
            UnchangedCheck(name="the timetable", path=f"/etc/cron.d/{name}"),
        ),
        fault=FaultDescription(
            component=(broken.component, name, job),
            mechanism=broken.mechanism,
            value=(broken.value, broken.component),
        ),
        reference=(broken.fix, job),
        relief=(f"cp {data} {target}/{stem}-$(date +%s%N).tsv",),
        shortcut=(broken.fix, f"rm -f {target}/*; {job}"),
    )


SCENARIO = Scenario(
    name="cron-failing-silently",
    group="jobs",
    summary="a backup job has been failing unseen, and the newest copy is old",
    draw=draw,
)
