"""A lock of a dead process lies there, from an old job that is not needed; the queue has no reader
because the service is configured with the wrong folder."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, ScriptCheck, TrafficSpec

BODY = """\
conf = settings(sys.argv[1])
log("INFO", f"lock {conf['lock']} is not ours: another instance is running or has been")

def work():
    while True:
        for name in os.listdir(conf["queue"]):
            os.unlink(os.path.join(conf["queue"], name))
            log("INFO", f"done {name}")
        time.sleep(0.1)

_thread.start_new_thread(work, ())

def answer(path):
    return 200, {"status": "ok"}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    queue, lock = f"{site.layout.data}/queue", f"/run/{site.service}.lock"
    works = ScriptCheck(
        name="a job that is put in is done",
        script=f"n=$RANDOM; echo x > {queue}/probe-$n; sleep 1; "
        f"test ! -e {queue}/probe-$n || {{ rm -f {queue}/probe-$n; exit 1; }}",
    )
    wrong = f"{site.layout.data}/quene"
    return site.look_alike(
        alert="queue of {service} on {host} grows while health is green, nothing is processed",
        body=BODY,
        settings={"queue": queue, "lock": lock},
        folders=[queue, wrong],
        files=[HostFile(path=lock, text="999999\n")],
        symptoms=[works],
        inject=[f"{site.layout.put('queue', wrong)}; systemctl restart {site.service}"],
        fix=[f"{site.layout.put('queue', queue)}; systemctl restart {site.service}"],
        same=[lock, site.layout.program],
        traffic=[TrafficSpec(port=site.layout.port, paths=("/health",))],
        moving=[queue],
    )
