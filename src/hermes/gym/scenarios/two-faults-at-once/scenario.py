"""Two faults that have nothing to do with each other, at the same time on the same host."""

from hermes.gym.dice import Dice
from hermes.gym.parts.compose import drawn, joined
from hermes.gym.parts.premises import alert
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Story

TEXTS = texts(__file__)
PAIRS = (
    ("staging-settings-reloaded", "memory-limit-too-low"),
    ("cron-failing-silently", "corrupted-data-with-backup"),
    ("full-dev-shm", "staging-settings-reloaded"),
    ("memory-limit-too-low", "cron-failing-silently"),
    ("deleted-but-open-file", "corrupted-data-with-backup"),
)


def draw(dice: Dice) -> Story:
    one, two = dice.some(dice.pick(PAIRS), 2)
    first = drawn(one, dice)
    second = drawn(two, dice, beside=first)
    names = [each.alert.labels["service"] for each in (first, second)]
    port = int(first.alert.labels["instance"].rpartition(":")[2])
    told = alert(
        dice,
        TEXTS["alerts"],
        "P1",
        service=names[0],
        host=first.hosts[0].name,
        port=port,
        first=names[0],
        second=names[1],
    )
    return joined(first, second, told)


SCENARIO = Scenario(
    name="two-faults-at-once",
    group="judgement",
    summary="two unrelated faults on one host; mending one of them is not enough",
    draw=draw,
)
