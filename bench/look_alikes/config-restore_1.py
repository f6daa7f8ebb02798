"""The configuration is right; a file of limits that it is checked against was changed. The older
copy beside it would be accepted, and serves the catalogue of last year."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck

BODY = """\
conf = settings(sys.argv[1])
most = int(settings(%%limits%%)["max_workers"])
if not 1 <= int(conf["workers"]) <= most:
    fatal(f"{sys.argv[1]}: workers must be between 1 and {most}, not {conf['workers']}")
items = open(conf["data"]).read().strip()
serve(int(conf["port"]), lambda path: (200, {"items": items}))
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    limits, workers = f"/etc/limits-{service}/host.limits", site.rng.number(18, 30)
    data, old = f"{layout.data}/items-b.txt", f"{layout.data}/items-a.txt"
    values = {"port": layout.port, "workers": workers, "data": data}
    older = layout.settings(**{**values, "workers": 4, "data": old})
    put = (
        f"sed -i 's/^max_workers=.*/max_workers={{}}/' {limits}; "
        f"systemctl reset-failed {service}; systemctl restart {service} || true"
    )
    return site.look_alike(
        alert="{service} on {host} starts no more, unit failed",
        body=BODY,
        settings={"workers": workers, "data": data},
        words={"limits": limits},
        files=[
            HostFile(path=f"{layout.conf}.bak", text=older.text),
            HostFile(path=limits, text="max_workers=32\n"),
            HostFile(path=data, text=site.token),
            HostFile(path=old, text="of last year"),
        ],
        symptoms=[HttpCheck(name="the items", port=layout.port, contains=site.token)],
        inject=[put.format(8)],
        fix=[put.format(32)],
        same=[layout.conf, f"{layout.conf}.bak", data, old, layout.program],
    )
