"""The cache is full of booked orders of another program, which must stay; the writer without an
expiry has written a handful of keys, as it should."""

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenarios.combine import draw_scenario

NEEDS = ("redis-server", "redis-cli")


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("redis-out-of-memory", site.rng)
    put = spec.inject[1].partition(";")[0]  # the writer's expiry is switched off, not loaded yet
    fill = (
        "p=$(ss -ltnpH | grep redis | grep -oE ':[0-9]+ ' | tr -d ': ' | head -n 1); "
        "for size in 60000 9000 900 9; do v=$(head -c $size /dev/zero | tr '\\0' x); "
        'for n in $(seq 200); do echo "SET booked:order:$size-$n $v"; done; done '
        "| redis-cli -p $p >/dev/null; true"
    )
    keys = "redis-cli -p $(ss -ltnpH | grep redis | grep -oE ':[0-9]+ ' | tr -d ': ' | head -n 1)"
    return LookAlike(
        replace(
            spec,
            inject=(spec.inject[0], put, fill),
            symptoms=spec.symptoms[:1],
            healthy=tuple(each for each in spec.healthy if "room" not in each.name),
            cure=(),
            reference=(f"{keys} CONFIG SET maxmemory 64mb",),
            collateral=tuple(each for each in spec.collateral if "maxmemory" not in each.name),
        ),
        keep=(("booked orders", f"{keys} --scan --pattern 'booked:*' | sort | md5sum"),),
    )
