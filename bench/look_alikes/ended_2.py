"""The licence of the service has run out: without a word it ends some seconds after each start."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, TrafficSpec

GRACE_S = 9.0
BODY = """\
conf = settings(sys.argv[1])

def enforce():
    while True:
        time.sleep(0.5)
        if open(conf["licence"]).read().strip() < time.strftime("%Y-%m-%d"):
            time.sleep(%%grace%%)
            os._exit(4)

_thread.start_new_thread(enforce, ())

def answer(path):
    return 200, {"status": "ok"}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    licence, delivered = f"{layout.data}/licence", f"/srv/licences/{service}/licence"
    return site.look_alike(
        alert="{service} on {host} is not running, nothing answers on port {port}",
        body=BODY,
        words={"grace": GRACE_S},
        settings={"licence": licence},
        unit_lines="Restart=no",
        files=[
            HostFile(path=licence, text="2999-12-31\n"),
            HostFile(path=delivered, text="2999-12-31\n"),
        ],
        symptoms=[HttpCheck(name="it answers", port=layout.port)],
        inject=[f"echo 2020-01-31 > {licence}; sleep {GRACE_S + 1.5}"],
        fix=[f"cp {delivered} {licence}; systemctl start {service}"],
        same=["/srv/licences", layout.program],
        traffic=[TrafficSpec(port=layout.port)],
        rhythm_s=GRACE_S + 2.0,
    )
