"""The renewal has installed a good certificate; the site was pointed to the archive, and shows the
expired one that lies there."""

import re

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import FaultTrigger, UnchangedCheck
from hermes.gym.scenarios.combine import draw_scenario
from hermes.gym.services.nginx import NGINX_NEEDS

NEEDS = (*NGINX_NEEDS, "openssl")


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("certificate-expired", site.rng)
    files = spec.hosts[0].files
    web = next(file for file in files if "ssl_certificate " in file.text)
    conf = next(file for file in files if file.text.startswith("# renewal of"))
    live = re.search(r"ssl_certificate (\S+)\.crt;", web.text)
    issued = re.search(r"^source=(\S+)$", conf.text, re.M)
    assert live and issued
    archive = f"$(ls -d {issued[1].replace('/issued/', '/archive/')}/*/ | tail -n 1)"
    shown = f"openssl x509 -noout -enddate -in {live[1]}.crt"
    spec = replace(
        spec,
        inject=(
            f"newest=$(ls -d {issued[1]}/*/ | sort | tail -n 1); "
            f"cp $newest/fullchain.pem {live[1]}.crt; cp $newest/privkey.pem {live[1]}.key; "
            f'old={archive}; sed -i "s|{live[1]}.crt|${{old}}fullchain.pem|; '
            f's|{live[1]}.key|${{old}}privkey.pem|" {web.path}; nginx -s reload; sleep 0.3',
        ),
        reference=(
            f"sed -i 's|ssl_certificate .*|ssl_certificate {live[1]}.crt;|; "
            f"s|ssl_certificate_key .*|ssl_certificate_key {live[1]}.key;|' {web.path}",
            "nginx -s reload",
        ),
        cure=(FaultTrigger(restart=("nginx.service",), pause=0.3),),
        collateral=(
            *(check for check in spec.collateral if getattr(check, "path", "") != web.path),
            UnchangedCheck(name="the settings of the renewal", path=conf.path),
        ),
    )
    return LookAlike(spec, keep=(("the installed certificate", shown),))
