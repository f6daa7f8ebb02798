"""The renewal gives tokens enough life; the service was pointed to the token of a retired client,
which another job renews without any life on purpose."""

import re

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import HostFile, UnchangedCheck
from hermes.gym.scenarios.combine import draw_scenario


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("expired-token", site.rng)
    host, service = spec.hosts[0], spec.alert.labels["service"]
    conf, renew, own = host.files[4], host.files[5], host.files[6]
    token = re.search(r"^token=(.*)$", own.text, re.M)
    assert token
    gone = f"{token[1]}-retired"
    text = re.sub(r"^(\w*hours)=.*$", r"\1=0", own.text, flags=re.M)
    text = text.replace(token[1], gone).replace(f"name={service}", "name=retired-client")
    retired = HostFile(
        path="/opt/tokens-retired/renew.conf",
        text=f"# revoked on purpose, see the contract\n{text}",
    )
    point = f"sed -i 's|{{}}$|{{}}|' {conf.path}; systemctl restart {service}; sleep 0.5"
    return LookAlike(
        replace(
            spec,
            hosts=(replace(host, files=(*host.files, retired)),),
            inject=(
                f"/usr/bin/python3 -S {renew.path} {retired.path}",
                point.format(token[1], gone),
            ),
            reference=(point.format(gone, token[1]),),
            collateral=(
                *(each for each in spec.collateral if getattr(each, "path", "") != conf.path),
                UnchangedCheck(name="the renewal", path=own.path),
                UnchangedCheck(name="the renewal of the retired client", path=retired.path),
            ),
        ),
    )
