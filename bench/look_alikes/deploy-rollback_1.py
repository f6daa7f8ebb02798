"""A release was put in place last and is as good as the one before; the feed of rates delivered a
file with other names of codes in the same minute."""

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import HostFile, UnchangedCheck
from hermes.gym.scenarios.combine import draw_scenario


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("bad-deploy-rollback", site.rng)
    host, service = spec.hosts[0], spec.alert.labels["service"]
    _, good, bad, *rest = host.files
    old, new = good.path.split("/")[-2], bad.path.split("/")[-2]
    bad = replace(bad, text=good.text.replace(old, new))
    rates = next(file for file in rest if file.path.endswith("/rates.json"))
    kept = HostFile(path="/var/lib/feed/inbox/rates-previous.json", text=rates.text)
    folder = rates.path.rpartition("/")[0]
    shout = f'sed -i \'s/"\\([a-z0-9]*\\)"/"\\U\\1"/g\' {rates.path}'
    return LookAlike(
        replace(
            spec,
            hosts=(replace(host, files=(host.files[0], good, bad, *rest, kept)),),
            inject=(spec.inject[0], shout, spec.inject[1]),
            reference=(f"cp {kept.path} {rates.path}; systemctl restart {service}",),
            collateral=(
                *(each for each in spec.collateral if getattr(each, "path", "") != folder),
                UnchangedCheck(name="the previous delivery", path=kept.path),
            ),
        ),
    )
