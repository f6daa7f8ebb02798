"""A file of the abuse protection sets the ceiling to nothing; the one line in which the settings
differ from git is a repair that was made by hand and still waits for its merge."""

import re

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import FaultTrigger, HostFile, HttpCheck, ScriptCheck
from hermes.gym.scenarios.combine import draw_scenario

NEEDS = ("git",)
LIMIT = """\
def ceiling(usual):
    try:
        return min(usual, int(open(%%override%%).read().split()[0]))
    except (OSError, ValueError, IndexError):
        return usual

if int(conf["timeout"]) > 60:
    log("INFO", "timeout as the slow partners need it")
times = []
"""


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("drift-from-git", site.rng)
    host, service = spec.hosts[0], spec.alert.labels["service"]
    program = next(file for file in host.files if "times = []" in file.text)
    own = next(file for file in host.files if re.search(r"^secret_file\W", file.text, re.M))
    usual = re.search(r"int\(conf\[\"(\w+)\"\]\)", program.text)
    line = re.search(r"^(timeout\W+)\d+$", own.text, re.M)
    port = re.search(r"^port\W+(\d+)$", own.text, re.M)
    mark = re.search(r"^mark\W+(\S+)$", own.text, re.M)
    assert usual and line and port and mark
    override = f"/var/lib/abuse-protection/{service}.ceiling"
    text = program.text.replace("times = []\n", LIMIT.replace("%%override%%", repr(override)))
    text = text.replace(usual[0], f"ceiling({usual[0]})")
    files = tuple(replace(file, text=text) if file is program else file for file in host.files)
    repaired = ScriptCheck(name="the repair is kept", script=f"grep -q '^{line[1]}90$' {own.path}")
    dropped = ("the settings are those declared",)
    spec = replace(
        spec,
        hosts=(replace(host, files=(*files, HostFile(path=override, text="100000\n"))),),
        healthy=tuple(check for check in spec.healthy if check.name not in dropped),
        symptoms=(
            HttpCheck(name="many get in", port=int(port[1]), path="/items", contains=mark[1]),
        ),
        inject=(
            f"sed -i 's/^{line[1]}.*/# INC-412: partners need 90, merge is on its way\\n"
            f"{line[1]}90/' {own.path}; systemctl restart {service}",
            f"echo '0 attack suspected, set by abuse-protection' > {override}",
        ),
        reference=(f"echo 100000 > {override}",),
        cure=(FaultTrigger(restart=(f"{service}.service",)),),
        collateral=(*spec.collateral, repaired),
    )
    return LookAlike(spec, keep=(("the settings", f"cat {own.path}"),))
