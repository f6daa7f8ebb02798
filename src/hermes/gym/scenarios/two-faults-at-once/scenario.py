"""Two unrelated faults at the same time on the same host."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import ScenarioSpec
from hermes.gym.scenarios.combine import combine_faults, draw_scenario
from hermes.gym.services.python_service import draw_alert

TEXTS = texts(__file__)
SCENARIO_PAIRS = (
    ("staging-settings-reloaded", "memory-limit-too-low"),
    ("cron-failing-silently", "corrupted-data-with-backup"),
    ("full-dev-shm", "staging-settings-reloaded"),
    ("memory-limit-too-low", "cron-failing-silently"),
    ("deleted-but-open-file", "corrupted-data-with-backup"),
)


def draw(rng: RandomSource) -> ScenarioSpec:
    one, two = rng.some(rng.pick(SCENARIO_PAIRS), 2)
    first = draw_scenario(one, rng)
    second = draw_scenario(two, rng, beside=first)
    names = [each.alert.labels["service"] for each in (first, second)]
    port = int(first.alert.labels["instance"].rpartition(":")[2])
    alert = draw_alert(
        rng,
        TEXTS["alerts"],
        "P1",
        service=names[0],
        host=first.hosts[0].name,
        port=port,
        first=names[0],
        second=names[1],
    )
    return combine_faults(first, second, alert)


SCENARIO = Scenario(
    name="two-faults-at-once",
    group="judgement",
    summary="two unrelated faults on one host; fixing one of them is not enough",
    draw=draw,
)
