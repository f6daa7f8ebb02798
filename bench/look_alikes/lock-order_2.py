"""Service and job take the rows in the same order; a trigger that was added to the table locks
them the other way round before the job does."""

import re

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import UnchangedCheck
from hermes.gym.scenarios.combine import draw_scenario
from hermes.gym.services.postgres import POSTGRES_NEEDS

NEEDS = POSTGRES_NEEDS
TRIGGER = """\
CREATE FUNCTION totals() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $f$
DECLARE first int := {last}; second int := {first};
BEGIN
  PERFORM 1 FROM accounts WHERE id = first FOR UPDATE;
  PERFORM pg_sleep(0.05);
  PERFORM 1 FROM accounts WHERE id = second FOR UPDATE;
  RETURN NULL;
END $f$;
CREATE TRIGGER totals BEFORE UPDATE OF swept ON accounts EXECUTE FUNCTION totals();
"""


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("db-deadlock", site.rng)
    host = spec.hosts[0]
    program = next(file for file in host.files if "pair = sorted((" in file.text)
    numbers = re.search(r"pair = sorted\(\((\d+), (\d+)\), reverse=conf\['(\w+)'\]", program.text)
    assert numbers
    confs = [f for f in host.files if re.search(rf"^{numbers[3]}\W", f.text, re.M)]
    backwards = re.search(rf"^{numbers[3]}\W+desc", confs[0].text, re.M) is not None
    first, last = sorted((int(numbers[1]), int(numbers[2])), reverse=backwards)
    scripts = " ".join(getattr(check, "script", "") for check in spec.collateral)
    found = re.search(r"\$\((\S+/psql .*?-d \S+) -c", scripts)
    assert found
    psql = found[1]
    sql = TRIGGER.format(first=first, last=last)
    spec = replace(
        spec,
        inject=(f"{psql} <<'END'\n{sql}END",),
        reference=(f"{psql} -c 'DROP TRIGGER totals ON accounts; DROP FUNCTION totals()'",),
        collateral=(
            *spec.collateral,
            *(UnchangedCheck(name=f"{file.path} is as it was", path=file.path) for file in confs),
        ),
        settle=1.0,
    )
    rows = f"{psql} -c 'SELECT count(*) FROM accounts'"
    return LookAlike(spec, keep=(("rows", rows),))
