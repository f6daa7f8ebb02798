"""Another program rightly holds the port: the service is configured with a port that is not its
own."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck

BODY = """\
conf = settings(sys.argv[1])

def answer(path):
    return 200, {"mark": conf["mark"]}

serve(int(conf["port"]), answer)
"""
AGENT = """\
import socket, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(9)
while True:
    c, _ = s.accept(); c.recv(9999)
    c.sendall(b"HTTP/1.0 200 -\\r\\n\\r\\nbackup agent"); c.close()
"""


def draw(site: Site) -> LookAlike:
    service, port = site.service, site.layout.port
    theirs = site.rng.port()
    agent = "/opt/backup-agent/agent.py"
    start = (
        f"(setsid nohup /usr/bin/python3 {agent} {theirs} </dev/null >/dev/null 2>&1 &); sleep 0.5"
    )
    alive = HttpCheck(name="the backup agent answers", port=theirs, contains="backup agent")
    return site.look_alike(
        alert="{service} on {host} does not start: address already in use",
        body=BODY,
        settings={"mark": site.token},
        files=[HostFile(path=agent, text=AGENT)],
        symptoms=[HttpCheck(name="it serves", port=port, contains=site.token)],
        inject=[start, f"{site.layout.put('port', theirs)}; systemctl restart {service} || true"],
        fix=[
            f"{site.layout.put('port', port)}; systemctl reset-failed {service}; "
            f"systemctl restart {service}"
        ],
        collateral=[alive],
        same=["/opt/backup-agent", site.layout.program],
    )
