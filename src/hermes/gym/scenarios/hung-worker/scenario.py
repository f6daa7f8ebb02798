"""A dead process left its lock: the worker waits for it while the health page is green."""

import json

from hermes.gym.scenario_builder import ScenarioBuilder, build_scenario, script_check


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    factor, dead = rng.number(3, 99), rng.number(21_000, 32_000)
    queue = f"{app.data}/{rng.pick(('queue', 'jobs', 'todo', 'spool'))}"
    done = f"{app.data}/{rng.pick(('done', 'results', 'finished'))}"
    folder = rng.pick(("/run/lock", "/var/lock/apps", app.data, f"/run/{app.name}"))
    lock = f"{folder}/{rng.pick((app.name, 'worker', 'batch', f'{app.name}-queue'))}.lock"
    other_lock = f"/var/lock/apps/{build.neighbour.layout.name}.lock"
    build.start(app, build.source("service.py.in"), waiting=build.wording("waiting"))
    jobs = {f"{rng.word()}{n}": n for n in rng.some(range(100, 999), rng.number(3, 6))}
    old = {f"{rng.word()}{n}": n for n in rng.some(range(1000, 1999), 3)}
    build.settings(app, port=app.port, queue=queue, done=done, lock=lock, factor=factor)
    for name, n in old.items():
        build.file(f"{app.data}/archive/{name}", json.dumps({"result": n * factor}))
    build.file(other_lock, "1\n")
    build.folders(queue, done, folder)

    put = " && ".join(
        f"echo {n} > {queue}/.{j} && mv {queue}/.{j} {queue}/{j}" for j, n in jobs.items()
    )
    build.alert("P2")
    build.healthy(
        app.http("it answers", "/health"),
        script_check(
            "jobs are worked off",
            build.source("job-completes.sh.in", port=app.port, result=7 * factor),
        ),
        app.runs(),
    )
    build.symptoms(
        *(app.http(f"{j} is done", f"/result/{j}", f": {n * factor}}}") for j, n in jobs.items()),
        healthy=False,
    )
    build.inject(
        build.changes(build.wording("causes", service=app.name)),
        f"for i in $(seq 100); do (set -C; echo {dead} > {lock}) 2>/dev/null && break; "
        f"sleep 0.01; done; {put}",
    )
    build.collateral(
        ("older results", f"{app.data}/archive"),
        ("the lock of somebody else", other_lock),
        ("the program", app.program),
        ("its settings", app.conf),
    )
    build.fault(
        component=(lock, lock.rpartition("/")[2]),
        mechanism="stale lock, stale, left behind, orphan, dead process, deadlock",
        value=(lock, f"{dead}"),
    )
    build.responses(
        reference=f"test -d /proc/{dead} || rm {lock}",
        futile=(app.restart, f"rm -f {lock} {queue}/*; {app.restart}"),
    )
    build.traffic("/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "process",
    "a worker waits for a lock whose owner is dead; the queue grows, health stays green",
)
