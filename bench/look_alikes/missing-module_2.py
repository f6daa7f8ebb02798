"""The module is a link to a shared folder whose target was renamed; the other file of that name on
the host is last year's tariff, which was put away."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, TrafficSpec

BODY = """\
conf = settings(sys.argv[1])
import %%module%%

def answer(path):
    return 200, {"price": %%module%%.price(100), "mark": conf["mark"]}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    module = f"tariff_{site.rng.number(10, 99)}"
    lib, shared = f"/opt/{service}-lib", f"/srv/shared/{service}"
    attic = f"/opt/{service}-attic"
    return site.look_alike(
        alert="{service} does not start any more on {host}, ModuleNotFoundError",
        body=BODY.replace("%%module%%", module),
        settings={"mark": site.token},
        files=[
            HostFile(path=f"{shared}/{module}.py", text="def price(net):\n    return net * 119\n"),
            HostFile(
                path=f"{attic}/README", text="Tariffs of 2025. Not to be used after New Year.\n"
            ),
            HostFile(path=f"{attic}/{module}.py", text="def price(net):\n    return net * 107\n"),
        ],
        folders=[lib],
        unit_lines=(
            f"Environment=PYTHONPATH={lib}\nEnvironment=PYTHONDONTWRITEBYTECODE=1\n"
            f"ExecStartPre=/bin/ln -sfn {shared}/{module}.py {lib}/{module}.py"
        ),
        symptoms=[HttpCheck(name="this year's price", port=layout.port, contains='"price": 11900')],
        inject=[
            f"mv {shared}/{module}.py {shared}/{module}.py.lock; "
            f"systemctl restart {service} || true"
        ],
        fix=[
            f"mv {shared}/{module}.py.lock {shared}/{module}.py; "
            f"systemctl reset-failed {service}; systemctl restart {service}"
        ],
        same=[attic, layout.conf, layout.program, f"/etc/systemd/system/{service}.service"],
        traffic=[TrafficSpec(port=layout.port)],
    )
