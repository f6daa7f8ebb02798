"""The upstream does not start because its list was moved away; the port configured in the front is
right, and what listens on the port beside it is a preview with invented items."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, TrafficSpec, UnitRunningCheck
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

BODY = """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    try:
        line = socket.create_connection(("127.0.0.1", int(conf["upstream_port"])), 1)
        line.sendall(b"GET /items HTTP/1.0\\r\\n\\r\\n")
        return 200, line.makefile("rb").read().partition(b"\\r\\n\\r\\n")[2].decode()
    except OSError as error:
        log("ERROR", f"upstream 127.0.0.1:{conf['upstream_port']}: {error}")
        return 502, {"error": "bad gateway"}

serve(int(conf["port"]), answer)
"""
BACK = """\
conf = settings(sys.argv[1])
try:
    items = open(conf["data"]).read().strip()
except OSError as error:
    fatal(f"cannot load {conf['data']}: {error.strerror}")
serve(int(conf["port"]), lambda path: (200, '{"items": ' + items + "}"))
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    back, port = f"{service}-catalog", site.rng.port()
    text = fill_program(BACK, style="{time} {level:5} {text}")
    files, units = [], []
    for name, number, items in ((back, port, site.token), (f"{back}-preview", port + 1, "sample")):
        items_file = f"/var/lib/{name}/items.json"
        files += [
            HostFile(path=f"/opt/{name}/main.py", text=text),
            HostFile(path=f"/etc/{name}.conf", text=f"port={number}\ndata={items_file}\n"),
            HostFile(path=items_file, text=f'["{items}", "chair"]\n'),
        ]
        units.append(service_unit(name, f"{PYTHON_COMMAND} /opt/{name}/main.py /etc/{name}.conf"))
    items_file = f"/var/lib/{back}/items.json"
    return site.look_alike(
        alert="502 Bad Gateway from {service} on {host}:{port}, nothing listens upstream",
        body=BODY,
        settings={"upstream_port": port},
        files=files,
        units=units,
        symptoms=[
            HttpCheck(name="real items", port=layout.port, path="/items", contains=site.token),
        ],
        inject=[f"mv {items_file} {items_file}.2 && systemctl restart {back} || true"],
        fix=[
            f"mv {items_file}.2 {items_file}; systemctl reset-failed {back}; "
            f"systemctl restart {back}"
        ],
        same=[layout.conf, layout.program, f"/etc/{back}.conf", f"/etc/{back}-preview.conf"],
        collateral=[
            UnitRunningCheck(
                name="the preview ran on", unit=f"{back}-preview.service", undisturbed=True
            )
        ],
        traffic=[TrafficSpec(port=layout.port, paths=("/items",))],
    )
