"""A fixed entry of the neighbour table leads to a network card that the cache no longer has; the
rule that was added lately drops the same address and port, but only for a user that must not."""

import re

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import UnchangedCheck
from hermes.gym.scenarios.combine import draw_scenario
from hermes.gym.services.redis import REDIS_NEEDS

NEEDS = (*REDIS_NEEDS, "ip", "nft", "nsenter")


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("network-partition", site.rng)
    near, far = spec.hosts
    rules = next(file for file in near.files if "flush ruleset" in file.text)
    table = re.search(r"^table inet (\w+)", rules.text, re.M)
    folder = re.search(r'^include "(\S+)/', rules.text, re.M)
    ports = [re.search(r"^cache_port\W+(\d+)$", file.text, re.M) for file in near.files]
    port = next(found for found in ports if found)
    assert table and folder
    late, filter_unit = f"{folder[1]}/60-tenants.nft", near.units[0].path
    rule = f"add rule inet {table[1]} output ip daddr {far.address} tcp dport {port[1]}"
    rule += " meta skuid 1001 drop"
    card = f"dev=$(ip -o route get {far.address} | sed 's/.* dev \\([^ ]*\\).*/\\1/'); "
    spec = replace(
        spec,
        inject=(
            f"echo '# scripts of www must not read baskets (audit 7)' > {late}; "
            f"echo '{rule}' >> {late}; systemctl restart {filter_unit}",
            f"{card} ip neigh replace {far.address} lladdr 02:16:3e:00:00:77 nud permanent "
            "dev $dev",
        ),
        reference=(f"{card} ip neigh del {far.address} dev $dev",),
        collateral=(
            *spec.collateral,
            UnchangedCheck(name="the table of rules", path=rules.path),
        ),
    )
    return LookAlike(
        spec, keep=(("the late rule", f"cat {late}"), ("the rules", "nft list ruleset"))
    )
