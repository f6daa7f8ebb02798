"""The certificate was renewed and lies where it should; the site was changed to show an old pair
from the archive. The renewal is switched off on purpose: another team installs the pair."""

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
    page = next(file for file in files if "ssl_certificate_key" in file.text)
    conf = next(file for file in files if file.text.startswith("# renewal of"))
    live = re.search(r"ssl_certificate (\S+)\.crt", page.text)
    pki = next(
        c.path for c in spec.collateral if isinstance(c, UnchangedCheck) and "issued" in c.name
    )
    assert live
    reload = "nginx -s reload; sleep 0.3"
    old = f"a=$(ls -d {pki}/archive/*/* | head -1); cp {page.path} /opt/site.before"
    swap = f"s|{live[1]}.crt|$a/fullchain.pem|; s|{live[1]}.key|$a/privkey.pem|"
    off = f"{{ echo '# off: the edge team installs the pair'; cat {conf.path}; }} > /opt/c"
    return LookAlike(
        replace(
            spec,
            inject=(
                f"{off}; sed 's/^enabled=.*/enabled=no/' /opt/c > {conf.path}; rm /opt/c",
                f'{old}; sed -i "{swap}" {page.path}; {reload}',
            ),
            reference=(f"cp /opt/site.before {page.path}; {reload}",),
            cure=(FaultTrigger(script=reload),),
            collateral=(
                *(each for each in spec.collateral if getattr(each, "path", "") != page.path),
                UnchangedCheck(name="the live pair", path=live[1].rpartition("/")[0]),
            ),
        ),
        keep=(("settings of the renewal", f"cat {conf.path}"),),
    )
