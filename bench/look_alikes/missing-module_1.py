"""The module is where the search path says; its folder was closed to the user of the service, which
Python reports as a missing module. The copy elsewhere is of another tenant, with other rates."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario import SEVERAL_USERS
from hermes.gym.scenario_spec import HostFile, HttpCheck

NEEDS = (SEVERAL_USERS,)
BODY = """\
import ratebook

conf = settings(sys.argv[1])
serve(int(conf["port"]), lambda path: (200, {"rate": ratebook.rate(7)}))
"""


def draw(site: Site) -> LookAlike:
    service, here = site.service, f"/opt/{site.service}-libs/vendor"
    elsewhere, factor = f"/opt/{service}-tenant-b/vendor", site.rng.number(100, 900)
    text = "def rate(level):\n    return level * {}\n"
    again = f"systemctl reset-failed {service}; systemctl restart {service} || true"
    return site.look_alike(
        alert="{service} does not start any more on {host}, it ends with a traceback",
        body=BODY,
        users=("www", "app"),
        unit_lines=f"User=app\nEnvironment=PYTHONPATH={here}",
        files=[
            HostFile(path=f"{here}/ratebook.py", text=text.format(factor)),
            HostFile(path=f"{elsewhere}/ratebook.py", text=text.format(factor + 3)),
        ],
        symptoms=[
            HttpCheck(name="rate", port=site.layout.port, contains=f'"rate": {factor * 7}}}')
        ],
        inject=[f"chmod 700 {here}; {again}"],
        fix=[f"chmod 755 {here}; {again}"],
        same=[
            f"{here}/ratebook.py",
            elsewhere,
            f"/etc/systemd/system/{service}.service",
            site.layout.conf,
            site.layout.program,
        ],
    )
