"""The backup job fails every time, and its output goes to /dev/null."""

from hermes.gym.scenario_builder import (
    ScenarioBuilder,
    UnchangedCheck,
    build_scenario,
    script_check,
)


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    mark, stem, hours = rng.token(), rng.word(), rng.number(26, 90)
    data = f"{app.data}/{stem}.tsv"
    target = f"{rng.pick(('/backup', '/srv/backups', '/mnt/vault', '/var/backups'))}/{app.name}"
    name = f"{rng.pick(('backup', 'copy', 'snapshot', 'dump'))}-{app.name}"
    job, lock = f"/opt/{rng.pick(('jobs', 'cron', 'ops'))}/{name}", f"/run/lock/{name}.lock"
    conf = f"/etc/{name}.conf"
    typo = rng.pick((f"{target}s", target.upper(), f"{target}/daily", target.replace("/", "/x", 1)))
    put = f"sed -i 's|^target=.*|target={{}}|' {conf}"
    inject, fix, component, value, mechanism = rng.pick(
        (
            (
                put.format(typo),
                put.format(target),
                conf,
                typo,
                "no such, wrong target, does not exist, wrong path",
            ),
            (
                f"echo 31999 > {lock}",
                f"rm -f {lock}",
                lock,
                lock,
                "stale lock, lock file, lock left, another run",
            ),
            (
                f"chmod a-x {job}",
                f"chmod a+x {job}",
                job,
                job,
                "not executable, permission denied, execute bit, lost its mode",
            ),
        )
    )
    rows = "".join(f"{rng.token()}\t{rng.number(1, 99)}\n" for _ in range(40))
    old = [f"{target}/{stem}-{rng.number(10**18, 2 * 10**18)}.tsv" for _ in range(3)]
    build.start_item_list(app, mark)
    build.file(data, rows)
    build.script(job, build.source("job.sh.in").format(data=data, conf=conf, lock=lock, stem=stem))
    build.file(conf, f"target={target}\n")
    build.file(
        f"/etc/cron.d/{name}",
        f"{rng.number(0, 59)} {rng.number(0, 6)} * * * root {job} >/dev/null 2>&1\n",
    )
    for path in old:
        build.file(path, rows)

    more = f"printf '{rng.token()}\\t1\\n{rng.token()}\\t2\\n' >> {data}"
    build.alert("P2", hours=hours)
    build.symptoms(
        script_check(
            "some backup has all that the data has",
            f"for f in {target}/{stem}-*; do"
            f' test -L "$f" || cmp -s "$f" {data} && exit 0; done; exit 1',
        )
    )
    build.healthy(app.http("the service answers", "/items", mark))
    build.inject(
        build.changes(),
        build.history(f"ls -l {target}"),
        f"{inject}; {job} >/dev/null 2>&1; touch -d '-{hours} hours' {target}/*",
        more,
    )
    build.trigger(script=more.replace("1\\n", "3\\n"))
    build.trigger(cron=name)
    build.collateral(
        UnchangedCheck(name="the data", path=data, may_grow=True),
        *((f"backup {path}", path) for path in old),
        ("the timetable", f"/etc/cron.d/{name}"),
    )
    build.fault(component=(component, name, job), mechanism=mechanism, value=(value, component))
    build.responses(
        reference=(fix, job),
        relief=f"cp {data} {target}/{stem}-$(date +%s%N).tsv",
        shortcut=(fix, f"rm -f {target}/*; {job}"),
    )


SCENARIO = build_scenario(
    __file__, draw, "jobs", "a backup job has been failing unseen, and the newest copy is old"
)
