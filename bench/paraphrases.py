"""Recall of incident texts asked for in other words, and by identifiers and error strings.

`python bench/paraphrases.py [FILE]` imports a file of `id`, `text` and the questions `paraphrase`
(few words in common), `exact` (an identifier or error string) and `oblique` (needs knowledge of
the trade; shown, without a target) into a throwaway home and asks them over everything, on text
alone and with embeddings. One JSON row each.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recall_home import Home

CORPUS = Path(__file__).parent / "corpora/recall/paraphrases.jsonl"
TARGETS = {"paraphrase_r5": 0.95, "exact_r1": 0.98}


def ask(home: Home, rows: Sequence[dict[str, Any]], kind: str) -> dict[str, Any]:
    asked = [row for row in rows if kind in row]
    if not asked:
        return {}
    answers = home.ask([{"query": row[kind]} for row in asked], 10)
    figures: dict[str, Any] = {f"{kind}s": len(asked)}
    for first in (1, 5, 10):
        hits = sum(row["id"] in answer[:first] for row, answer in zip(asked, answers, strict=True))
        figures[f"{kind}_r{first}"] = round(hits / len(asked), 3)
    return figures


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else CORPUS
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    with Home() as home:
        home.take_in(
            {
                "id": row["id"],
                "session": "notes",
                "speaker": "ops",
                "text": row["text"],
                "at": "2026-01-05T09:00:00+00:00",
            }
            for row in rows
        )
        for way in ("text", "embeddings"):
            if way == "embeddings":
                home.embed()
            figures: dict[str, Any] = {}
            for kind in ("paraphrase", "exact", "oblique"):
                figures |= ask(home, rows, kind)
            held = way == "text" or all(figures[name] >= least for name, least in TARGETS.items())
            print(json.dumps({"bench": "paraphrases", "way": way, "texts": len(rows), **figures,
                              "targets": TARGETS, "held": held}), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
