"""The number in the lock file is of a dead process, but a living one holds it with flock: the
compaction of the same data, which is configured to pause for an hour between two steps."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, ScriptCheck, UnitRunningCheck
from hermes.gym.services.python_service import fill_program, service_unit

LOCKED = """\
import fcntl

conf = settings(sys.argv[1])
"""
BODY = (
    LOCKED
    + """\
def work():
    while True:
        time.sleep(0.1)
        names = os.listdir(conf["queue"])
        if not names:
            continue
        with open(conf["lock"]) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                log("WARN", f"lock {conf['lock']} is taken, pid {lock.read().strip()}; waiting")
                continue
            for name in names:
                os.unlink(os.path.join(conf["queue"], name))
                log("INFO", f"done {name}")

_thread.start_new_thread(work, ())
serve(int(conf["port"]), lambda path: (200, {"status": "ok"}))
"""
)
COMPACT = (
    LOCKED
    + """\
while True:
    with open(conf["lock"]) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        log("INFO", f"compacting, holding {conf['lock']}")
        time.sleep(float(conf["pause_s"]))
    time.sleep(0.5)
"""
)


def draw(site: Site) -> LookAlike:
    service, queue = site.service, f"{site.layout.data}/queue"
    lock, program = f"{site.layout.data}/work.lock", f"/opt/{service}-compact/compact.py"
    conf, job = f"/etc/{service}-compact.conf", f"{service}-compact"
    works = ScriptCheck(
        name="a job that is put in is done",
        script=f"n=$RANDOM; echo x > {queue}/probe-$n; for i in $(seq 30); do sleep 0.1; "
        f"test -e {queue}/probe-$n || exit 0; done; rm -f {queue}/probe-$n; exit 1",
    )
    put = f"sed -i 's/^pause_s=.*/pause_s={{}}/' {conf}; systemctl restart {job}"
    return site.look_alike(
        alert="queue of {service} on {host} grows while health is green, nothing is processed",
        body=BODY,
        settings={"queue": queue, "lock": lock},
        folders=[queue],
        files=[
            HostFile(path=lock, text="31999\n"),
            HostFile(path=program, text=fill_program(COMPACT, style="{time} {level} {text}")),
            HostFile(path=conf, text=f"lock={lock}\npause_s=0.01\n"),
        ],
        units=[service_unit(job, f"/usr/bin/python3 -S {program} {conf}")],
        symptoms=[works],
        inject=[f"{put.format(3600)}; sleep 1"],
        fix=[put.format(0.01)],
        same=[lock, site.layout.conf, site.layout.program, program],
        collateral=[UnitRunningCheck(name="the compaction runs", unit=f"{job}.service")],
        keep=[("the lock is the same file", f"stat -c %i {lock}")],
        moving=[queue],
    )
