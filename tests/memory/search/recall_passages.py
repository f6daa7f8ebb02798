"""A small world of talks and notes that the recall tests ask about."""

from datetime import UTC, datetime, timedelta

from in_memory_recall import InMemoryRecallStore

from hermes.memory.search.line_index import Passage

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
NOW = START + timedelta(days=10)

TALK = [
    ("Priya", "Morning Tom! Did the garden survive the storm?"),
    ("Tom", "Mostly. The old apple tree fell on the greenhouse."),
    ("Priya", "Oh no. What will you do about it?"),
    ("Tom", "I ordered new glass on Tuesday, it comes next week."),
    ("Priya", "I adopted a puppy called Biscuit, by the way."),
    ("Tom", "Lovely! Tom junior wants a hamster."),
    ("Priya", "We also keep two parrots since the summer."),
    ("Tom", "Your flat must be loud."),
]
NOTES = [
    "Replica db-orders-2 stopped with error 1062 duplicate key, resynced from the primary.",
    "Replica db-orders-3 was added to the inventory by the platform team.",
    "Team Heron owns the notification service.",
    "Escalations of Heron go to the channel #heron-oncall.",
    "The certificate of api.internal expired since the renewal timer was masked.",
]


def passages() -> list[Passage]:
    talk = [
        Passage(
            seq=at,
            source=f"talk-{at}",
            session="talk",
            position=at,
            at=START + timedelta(minutes=at),
            speaker=speaker,
            text=text,
        )
        for at, (speaker, text) in enumerate(TALK)
    ]
    notes = [
        Passage(
            seq=100 + at,
            source=f"note-{at}",
            session="notes",
            position=at,
            at=START + timedelta(minutes=at),
            speaker="ops",
            text=text,
        )
        for at, text in enumerate(NOTES)
    ]
    return talk + notes


def store() -> InMemoryRecallStore:
    return InMemoryRecallStore(passages())
