"""The upstream is configured to listen on another address than its own; the name is right, and a
partner asks the same address without the name."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, TrafficSpec
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

BODY = """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    try:
        line = socket.create_connection((conf["upstream"], int(conf["upstream_port"])), 1)
        line.sendall(b"GET /items HTTP/1.0\\r\\n\\r\\n")
        return 200, line.makefile("rb").read().partition(b"\\r\\n\\r\\n")[2].decode()
    except OSError as error:
        log("ERROR", f"cannot reach {conf['upstream']} ({error})")
        return 502, {"error": "upstream"}

serve(int(conf["port"]), answer)
"""
BACK = """\
conf = settings(sys.argv[1])
listener = _socket.socket()
listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
listener.bind((conf["bind"], int(conf["port"])))
listener.listen(64)
log("INFO", f"listening on {conf['bind']}:{conf['port']}")
serve(0, lambda path: (200, {"items": conf["mark"]}), listener)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    back, port = f"{service}-catalog", site.rng.port()
    name, address = f"{back}.internal", f"127.0.{site.rng.number(2, 9)}.7"
    conf = f"/etc/{back}.conf"
    own = f"# {address} is in the contract with the partners\nbind={address}\nport={port}\n"
    return site.look_alike(
        alert="{service} on {host} cannot reach " + name + ", nothing listens at its address",
        body=BODY,
        settings={"upstream": name, "upstream_port": port},
        files=[
            HostFile(
                path=f"/opt/{back}/main.py",
                text=fill_program(BACK, style="{time} {level:5} {text}"),
            ),
            HostFile(path=conf, text=f"{own}mark={site.token}\n"),
            HostFile(
                path="/etc/hosts", text=f"127.0.0.1 localhost {site.host}\n{address} {name}\n"
            ),
        ],
        units=[service_unit(back, f"{PYTHON_COMMAND} /opt/{back}/main.py {conf}")],
        symptoms=[
            HttpCheck(
                name="the page has items", port=layout.port, path="/page", contains=site.token
            ),
            HttpCheck(name="a partner gets items", port=port, address=address, contains=site.token),
        ],
        inject=[f"sed -i 's/^bind=.*/bind=127.0.0.1/' {conf}; systemctl restart {back}"],
        fix=[f"sed -i 's/^bind=.*/bind={address}/' {conf}; systemctl restart {back}"],
        same=["/etc/hosts", layout.conf, layout.program, f"/opt/{back}"],
        traffic=[TrafficSpec(port=layout.port, paths=("/page",))],
    )
