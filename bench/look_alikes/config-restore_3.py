"""A restart works for some seconds; then a worker limit outside of the settings ends the service.
An older copy of the settings lies beside, and differs in a setting that the log mentions."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck

BODY = """\
import threading
conf = settings(sys.argv[1])
if int(conf["workers"]) < 1:
    fatal("invalid value for workers")

def end():
    time.sleep(6)
    if os.path.exists("/run/licence-expired"):
        fatal(f"workers {conf['workers']} not allowed: invalid licence")

threading.Thread(target=end, daemon=True).start()

def answer(path):
    return 200, {"mark": conf["mark"]}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    sign = layout.sign
    old = f"# {service}\nport{sign}{layout.port}\nworkers{sign}2\nmark{sign}older\n"
    return site.look_alike(
        alert="{service} on {host} keeps restarting after the maintenance window",
        body=BODY,
        settings={"workers": 8, "mark": site.token},
        files=[HostFile(path=f"{layout.conf}.bak", text=old)],
        unit_lines="StartLimitIntervalSec=0",
        symptoms=[HttpCheck(name="it serves", port=layout.port, contains=site.token)],
        inject=["touch /run/licence-expired", f"systemctl restart {service}; sleep 9"],
        fix=["rm /run/licence-expired", f"systemctl restart {service}"],
        same=[layout.conf, f"{layout.conf}.bak", layout.program],
        rhythm_s=8.0,
        settle=1.0,
    )
