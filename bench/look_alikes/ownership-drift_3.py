"""The service may not write because its sealed folder is meant to be read-only for it; the right
folder is named wrongly in its settings."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HostFolder, HttpCheck, TrafficSpec

BODY = """\
conf = settings(sys.argv[1])

def answer(path):
    if path != "/put":
        return 200, {"status": "ok"}
    try:
        with open(conf["store"] + "/new.rec", "w") as file:
            file.write(conf["mark"])
    except OSError as error:
        log("ERROR", f"cannot write {conf['store']}/new.rec: {error.strerror}")
        return 500, {"error": "not stored"}
    if not conf["store"].endswith("/spool"):
        log("ERROR", "permission denied by the archive")
        return 500, {"error": "archive is sealed"}
    return 200, {"stored": conf["mark"]}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    spool, sealed = f"{site.layout.data}/spool", f"{site.layout.data}/sealed"
    return site.look_alike(
        alert="{service} on {host} does not take files: permission denied",
        body=BODY,
        settings={"store": spool, "mark": site.token},
        unit_lines="User=www",
        folders=[HostFolder(path=spool, owner=1001), HostFolder(path=sealed, mode=0o755)],
        files=[
            HostFile(path=f"{sealed}/ledger-{n}.txt", text=f"entry {n}", mode=0o444)
            for n in range(5)
        ],
        symptoms=[
            HttpCheck(
                name="files are stored", port=site.layout.port, path="/put", contains=site.token
            )
        ],
        inject=[f"{site.layout.put('store', sealed)}; systemctl restart {site.service}"],
        fix=[f"{site.layout.put('store', spool)}; systemctl restart {site.service}"],
        same=[sealed, site.layout.program],
        traffic=[TrafficSpec(port=site.layout.port, paths=("/put", "/health"))],
        moving=[f"{spool}/new.rec"],
    )
