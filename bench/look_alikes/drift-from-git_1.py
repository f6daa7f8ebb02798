"""The live limit was raised by hand for a campaign and is meant to differ from git; requests are
refused because the file that counts them has an entry with a time in the future."""

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import HostFile
from hermes.gym.scenarios.combine import draw_scenario
from hermes.gym.services.python_service import fill_program

NEEDS = ("git",)
BODY = """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    now, limit = time.time(), int(conf[%%key%%])
    rows = [line.split() for line in open(%%window%%)]
    rows = [row for row in rows if now - float(row[0]) < 60]
    if sum(int(count) for _, count in rows) >= limit:
        log("WARN", f"request refused, {limit} allowed per window")
        return 429, {"error": "slow down"}
    with open(%%window%%, "w") as file:
        file.writelines(f"{at} {count}\\n" for at, count in [*rows, (now, 1)])
    return 200, {"items": [conf["mark"]]}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("drift-from-git", site.rng)
    host, service = spec.hosts[0], spec.alert.labels["service"]
    program, own, *rest = host.files
    key, right = own.text.split("\n")[-2].replace("=", " ").replace(":", " ").split()
    window = f"/var/lib/window-{service}/requests"
    text = fill_program(BODY, style="{time} {level} {text}", key=key, window=window)
    files = (replace(program, text=text), own, *rest, HostFile(path=window))
    raised = f"sed -i 's/{right}$/{int(right) * 3}/' {own.path}"
    note = f"echo '# {key}: raised for the campaign, stays until it is merged' >> {own.path}"
    return LookAlike(
        replace(
            spec,
            hosts=(replace(host, files=files),),
            healthy=tuple(c for c in spec.healthy if "are those declared" not in c.name),
            inject=(
                f"{raised}; {note}; systemctl restart {service}; sleep 0.5",
                f"echo '4102444800.0 9000000' >> {window}",
            ),
            reference=(f": > {window}",),
        ),
        keep=(("live settings", f"cat {own.path}"),),
        moving=(window,),
    )
