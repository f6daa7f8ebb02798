"""The port of the upstream was changed in its own settings; the front was told the right one, which
a partner gate and a contract name as well. The new port in the front heals the front alone."""

from look_alike_kit import LookAlike, Site

from hermes.gym.parts.microweb import filled
from hermes.gym.parts.premises import PYTHON
from hermes.gym.parts.shop import unit
from hermes.gym.story import File, Http, Running, Traffic

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
    service, place = site.service, site.place
    back, gate = f"{service}-catalog", f"{service}-partner-gate"
    port, gate_port, style = site.dice.port(), site.dice.port(), "{time} {level:5} {text}"
    conf = f"/etc/{back}.conf"
    own = f"# partners have the port in their contract: {port}\nport={port}\nmark={site.token}\n"
    told = f"sed -i 's/^port=.*/port={{}}/' {conf}; systemctl restart {back}"
    return site.look_alike(
        alert="502 Bad Gateway from {service} on {host}:{port}, nothing listens upstream",
        body=BODY,
        settings={"upstream_port": port},
        files=[
            File(path=f"/opt/{back}/main.py", text=filled(BACK, style=style)),
            File(path=conf, text=own),
            File(path=f"/opt/{gate}/main.py", text=filled(BODY, style=style)),
            File(path=f"/etc/{gate}.conf", text=f"port={gate_port}\nupstream_port={port}\n"),
        ],
        units=[
            unit(back, f"{PYTHON} /opt/{back}/main.py {conf}"),
            unit(gate, f"{PYTHON} /opt/{gate}/main.py /etc/{gate}.conf"),
        ],
        symptoms=[
            Http(name="the items come", port=place.port, path="/items", contains=site.token),
            Http(name="partners get items", port=gate_port, path="/items", contains=site.token),
            Http(name="the port of the contract", port=port, contains=site.token),
        ],
        inject=[
            f"echo \"$(date '+%F %T') {back}: second instance tried\" >> /var/log/changes.log; "
            f"{told.format(port + 1)}"
        ],
        fix=[told.format(port)],
        same=[place.conf, place.program, f"/etc/{gate}.conf", f"/opt/{back}", f"/opt/{gate}"],
        collateral=[Running(name="the gate ran on", unit=f"{gate}.service", undisturbed=True)],
        traffic=[
            Traffic(port=place.port, paths=("/items",)),
            Traffic(port=gate_port, paths=("/items",)),
        ],
    )
