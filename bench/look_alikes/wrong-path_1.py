"""The setting is right: the file it names is built from its source by a unit that was stopped. The
one file beside it is a draft of next year's prices."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck
from hermes.gym.services.python_service import service_unit

BODY = """\
conf = settings(sys.argv[1])
for attempt in range(20):
    if os.path.exists(conf["prices"]):
        break
    time.sleep(0.1)
try:
    prices = open(conf["prices"]).read().strip()
except OSError as error:
    fatal(f"cannot load {conf['prices']}: {error.strerror}")

def answer(path):
    return 200, {"prices": prices}

serve(int(conf["port"]), answer)
"""
BUILD = """\
#!/bin/bash
# Builds the price list from its source; the list is removed when this ends.
trap 'rm -f {list}; exit 0' TERM
mkdir -p $(dirname {list})
cp {source} {list}.part && mv {list}.part {list}
while :; do sleep 0.2; done
"""


def draw(site: Site) -> LookAlike:
    service, job = site.service, f"{site.service}-pricelist"
    folder, source = f"{site.layout.data}/build", f"/srv/{service}-source/prices.txt"
    prices, draft = f"{folder}/prices.json", f"{folder}/prices-new.json"
    build = BUILD.format(list=prices, source=source)
    again = f"systemctl reset-failed {service}; systemctl restart {service} || true"
    return site.look_alike(
        alert="{service} on {host} does not start any more, connection refused on port {port}",
        body=BODY,
        settings={"prices": prices},
        files=[
            HostFile(path=f"/opt/{job}/build.sh", text=build, mode=0o755),
            HostFile(path=source, text=f"{site.token}\n"),
            HostFile(path=draft, text="draft of next year, not agreed\n"),
        ],
        units=[service_unit(job, f"/bin/bash /opt/{job}/build.sh")],
        symptoms=[HttpCheck(name="the prices", port=site.layout.port, contains=site.token)],
        inject=[f"systemctl stop {job}; rm -f {prices}; {again}; sleep 2"],
        fix=[f"systemctl start {job}; sleep 0.5; {again}"],
        same=[draft, source, f"/opt/{job}", site.layout.conf, site.layout.program],
    )
