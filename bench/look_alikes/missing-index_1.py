"""All indexes are there; the database is configured not to use them (enable_indexscan is off)."""

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import FaultTrigger, UnchangedCheck
from hermes.gym.scenarios.combine import draw_scenario
from hermes.gym.services.postgres import POSTGRES_NEEDS

NEEDS = POSTGRES_NEEDS


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("missing-index", site.rng)
    service = spec.alert.labels["service"]
    files = {file.path: file.text for file in spec.hosts[0].files}
    declared = next(path for path in files if path.endswith(".indexes"))
    tool = next(path for path in files if path.endswith("/sync-indexes"))
    psql = next(line for line in files[tool].splitlines() if line.startswith("ask()"))
    psql = psql.removeprefix("ask() { ").removesuffix(' "$1"; }')
    first = files[declared].splitlines()[1].split()
    off = " ".join(
        f"{psql} 'ALTER SYSTEM SET {name} = off';"
        for name in ("enable_indexscan", "enable_bitmapscan", "enable_indexonlyscan")
    )
    note = (
        f"echo \"$(date '+%F %T') dropped {first[1]}_old_ix, not declared\" >> /var/log/schema.log"
    )
    load = f"{psql} 'SELECT pg_reload_conf()'; sleep 0.5"
    return LookAlike(
        replace(
            spec,
            inject=(f"{note}; {off} {load}",),
            reference=(f"{psql} 'ALTER SYSTEM RESET ALL'; {load}",),
            cure=(FaultTrigger(restart=(f"{service}.service",)),),
            collateral=(*spec.collateral, UnchangedCheck(name="what is declared", path=declared)),
        ),
        keep=(("indexes", f"{psql} 'SELECT indexdef FROM pg_indexes ORDER BY 1'"),),
    )
