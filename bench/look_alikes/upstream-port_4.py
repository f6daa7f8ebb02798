"""The port of the upstream was changed in its own settings; the front is configured with the right
one, which a partner gate and a contract name as well. The new port in the front heals the front
alone."""

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
serve(int(conf["port"]), lambda path: (200, {"items": conf["mark"]}))
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    back, gate = f"{service}-catalog", f"{service}-partner-gate"
    port, gate_port, style = site.rng.port(), site.rng.port(), "{time} {level:5} {text}"
    conf = f"/etc/{back}.conf"
    own = f"# partners have the port in their contract: {port}\nport={port}\nmark={site.token}\n"
    reconfigure = f"sed -i 's/^port=.*/port={{}}/' {conf}; systemctl restart {back}"
    return site.look_alike(
        alert="502 Bad Gateway from {service} on {host}:{port}, nothing listens upstream",
        body=BODY,
        settings={"upstream_port": port},
        files=[
            HostFile(path=f"/opt/{back}/main.py", text=fill_program(BACK, style=style)),
            HostFile(path=conf, text=own),
            HostFile(path=f"/opt/{gate}/main.py", text=fill_program(BODY, style=style)),
            HostFile(path=f"/etc/{gate}.conf", text=f"port={gate_port}\nupstream_port={port}\n"),
        ],
        units=[
            service_unit(back, f"{PYTHON_COMMAND} /opt/{back}/main.py {conf}"),
            service_unit(gate, f"{PYTHON_COMMAND} /opt/{gate}/main.py /etc/{gate}.conf"),
        ],
        symptoms=[
            HttpCheck(name="the items come", port=layout.port, path="/items", contains=site.token),
            HttpCheck(
                name="partners get items", port=gate_port, path="/items", contains=site.token
            ),
            HttpCheck(name="the port of the contract", port=port, contains=site.token),
        ],
        inject=[
            f"echo \"$(date '+%F %T') {back}: second instance tried\" >> /var/log/changes.log; "
            f"{reconfigure.format(port + 1)}"
        ],
        fix=[reconfigure.format(port)],
        same=[layout.conf, layout.program, f"/etc/{gate}.conf", f"/opt/{back}", f"/opt/{gate}"],
        collateral=[
            UnitRunningCheck(name="the gate ran on", unit=f"{gate}.service", undisturbed=True)
        ],
        traffic=[
            TrafficSpec(port=layout.port, paths=("/items",)),
            TrafficSpec(port=gate_port, paths=("/items",)),
        ],
    )
