"""The cache on the other host hangs; the rule that was added lately closes another port of that
host, on purpose."""

import re

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import FaultTrigger, UnchangedCheck
from hermes.gym.scenarios.combine import draw_scenario
from hermes.gym.services.redis import REDIS_NEEDS

NEEDS = (*REDIS_NEEDS, "ip", "nft", "nsenter")


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("network-partition", site.rng)
    near, far = spec.hosts
    rules = next(file for file in near.files if "flush ruleset" in file.text)
    table = re.search(r"^table inet (\w+)", rules.text, re.M)
    folder = re.search(r'^include "(\S+)/', rules.text, re.M)
    filter_unit = near.units[0].path
    assert table and folder
    late = f"{folder[1]}/60-metrics.nft"
    rule = f"add rule inet {table[1]} output ip daddr {far.address} tcp dport 9121 drop"
    pid = "$(systemctl show -p MainPID --value redis)"
    spec = replace(
        spec,
        inject=(
            f"echo '# metrics of the cache are not for this host (audit 7)' > {late}; "
            f"echo '{rule}' >> {late}; systemctl restart {filter_unit}",
            f"1:kill -STOP {pid}",
        ),
        reference=(f"1:kill -CONT {pid}",),
        cure=(FaultTrigger(restart=(f"{spec.alert.labels['service']}.service",)),),
        collateral=(
            *spec.collateral,
            UnchangedCheck(name="the table of rules", path=rules.path),
        ),
    )
    return LookAlike(
        spec, keep=(("the late rule", f"cat {late}"), ("the rules", "nft list ruleset"))
    )
