"""The store is full because the archiver is configured with a folder that does not exist; the
ceiling is part of the licence, and a higher one in the settings changes nothing."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, TrafficSpec
from hermes.gym.services.python_service import service_unit

BODY = """\
conf = settings(sys.argv[1])
store = conf["store"]

def answer(path):
    most = min(int(conf["max_files"]), int(open(conf["licence"]).read().split()[-1]))
    used = len(os.listdir(store))
    if path == "/health":
        return 200, {"status": "ok", "used": used}
    if used >= most:
        log("ERROR", f"no space left in {store}: {used} of {most} files used (max_files)")
        return 507, {"error": "no space left"}
    return 200, {"accepted": conf["mark"], "used": used}

serve(int(conf["port"]), answer)
"""
ARCHIVER = """\
#!/bin/bash
# Moves what is done to the archive.
. {conf}
while sleep 0.2; do
  for file in {store}/*.done; do
    [ -e "$file" ] || continue
    [ -d "$archive" ] && mv "$file" "$archive/" && continue
    echo "cannot archive $file: no folder $archive"; sleep 1
  done
done
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    store, archive, tool = f"{layout.data}/store", f"/srv/{service}-archive", f"{service}-archiver"
    conf, licence = f"/etc/{tool}.conf", f"/etc/{service}-licence/licence.txt"
    script = ARCHIVER.format(conf=conf, store=store)
    return site.look_alike(
        alert="{service} on {host} answers 507 Insufficient Storage, the disk has room",
        body=BODY,
        settings={"store": store, "max_files": 12, "licence": licence, "mark": site.token},
        files=[
            HostFile(path=licence, text="files in the store at most: 12\n"),
            HostFile(path=conf, text=f"archive={archive}\n"),
            HostFile(path=f"/opt/{tool}/run.sh", text=script, mode=0o755),
            *(HostFile(path=f"{store}/customer-{n}.open", text=f"order {n}\n") for n in range(4)),
        ],
        folders=[archive],
        units=[service_unit(tool, f"/bin/bash /opt/{tool}/run.sh")],
        symptoms=[HttpCheck(name="it accepts", port=layout.port, path="/put", contains=site.token)],
        inject=[
            f"echo archive=/mnt/archive/{service} > {conf}; systemctl restart {tool}; "
            f"for n in $(seq 20 27); do echo order $n > {store}/customer-$n.done; done"
        ],
        fix=[f"echo archive={archive} > {conf}; systemctl restart {tool}; sleep 3"],
        same=[
            licence,
            layout.conf,
            layout.program,
            *(f"{store}/customer-{n}.open" for n in (0, 3)),
        ],
        keep=[
            (
                "the orders",
                f"cat {store}/customer-* {archive}/customer-* 2>/dev/null | sort | sha256sum",
            )
        ],
        traffic=[TrafficSpec(port=layout.port, paths=("/put",))],
    )
