"""Evidence recall on LoCoMo, without a model at query time.

`python bench/locomo.py DATA [--no-captions]` imports the dialogue turns (speaker, date, text) of
every conversation into a throwaway home through `hermes sessions import`, asks every question
within its conversation through `hermes recall`, first on text alone, then with embeddings, and
prints one JSON row each. Recall at k is the share of a question's evidence turns among the first k
answers, averaged over the questions whose evidence exists. Nothing else of the data set is read: no
observations, no summaries. The data is not part of this repository (CC BY-NC 4.0).
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from recall_home import Home

KINDS = {1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop", 5: "adversarial"}
TARGETS = {"r5": 72.0, "r10": 80.0, "multi_hop_r10": 55.0}
EVIDENCE = re.compile(r"D:?(\d+):0*(\d+)")


class Asked(NamedTuple):
    conversation: str
    question: str
    kind: str
    evidence: frozenset[str]


def turns(sample: dict[str, Any], *, captions: bool) -> Iterator[dict[str, Any]]:
    conversation = sample["conversation"]
    number = 1
    while f"session_{number}_date_time" in conversation:
        told = conversation[f"session_{number}_date_time"]
        start = datetime.strptime(told, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for place, turn in enumerate(conversation.get(f"session_{number}", [])):
            caption = turn.get("blip_caption") if captions else None
            yield {
                "id": f"{sample['sample_id']}/{turn['dia_id']}",
                "session": sample["sample_id"],
                "speaker": turn["speaker"],
                "text": f"{turn['text']} [{caption}]" if caption else turn["text"],
                "at": (start + timedelta(seconds=place)).isoformat(),
            }
        number += 1


def questions(sample: dict[str, Any], known: set[str]) -> Iterator[Asked]:
    name = sample["sample_id"]
    for asked in sample["qa"]:
        named = " ".join(asked.get("evidence", []))
        found = {f"{name}/D{session}:{turn}" for session, turn in EVIDENCE.findall(named)}
        if usable := frozenset(found & known):
            yield Asked(name, asked["question"], KINDS[asked["category"]], usable)


def score(asked: Sequence[Asked], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    def mean(kind: str | None, first: int) -> float:
        shares = [
            len(one.evidence & set(answer[:first])) / len(one.evidence)
            for one, answer in zip(asked, answers, strict=True)
            if kind in (None, one.kind, one.conversation)
        ]
        return round(100 * sum(shares) / max(1, len(shares)), 1)

    figures = {"r5": mean(None, 5), "r10": mean(None, 10)}
    figures |= {f"{kind}_r10": mean(kind, 10) for kind in KINDS.values()}
    names = sorted({one.conversation for one in asked})
    return figures | {f"{name}_r10": mean(name, 10) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--no-captions", action="store_true", help="leave out image captions")
    given = parser.parse_args()
    samples = json.loads(given.data.read_text())
    messages = [
        turn for sample in samples for turn in turns(sample, captions=not given.no_captions)
    ]
    known = {message["id"] for message in messages}
    asked = [question for sample in samples for question in questions(sample, known)]
    lines = [{"query": one.question, "session": one.conversation} for one in asked]
    with Home() as home:
        home.take_in(messages)
        for way in ("text", "embeddings"):
            if way == "embeddings":
                home.embed()
            figures = score(asked, home.ask(lines, 10))
            held = way == "text" or all(figures[name] >= least for name, least in TARGETS.items())
            print(json.dumps({"bench": "locomo", "way": way, "questions": len(asked), **figures,
                              "targets": TARGETS, "held": held}), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
