"""Measures the text of web pages against trafilatura's evaluation set, which we did not write.

usage: python bench/web_pages.py FOLDER [--standard] [--limit N]

FOLDER is `tests/` of a checkout of adbar/trafilatura: it has `evaldata.json`, `eval/` and `cache/`.
For each page the set names pieces of text that belong to the main text, and pieces that do not.
`--standard` measures the standard parser, which is used where trafilatura is not installed.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from hermes.integrations.web.html_text import PageOutline, read_html
from hermes.integrations.web.pages import decode_html


def read_with_standard_parser(html: str, url: str) -> str:
    return PageOutline(html, url).text


def find_file(folder: Path, name: str) -> Path | None:
    return next((p for p in (folder / "eval" / name, folder / "cache" / name) if p.exists()), None)


def measure(folder: Path, read: Callable[[str, str], str], limit: int) -> dict[str, float]:
    kept = dropped = missed = wrong = 0
    milliseconds = []
    pages = json.loads((folder / "evaldata.json").read_text("utf-8"))
    for url, page in list(pages.items())[:limit]:
        path = find_file(folder, page["file"])
        if path is None:
            continue
        html = decode_html(path.read_bytes(), "")
        started = time.process_time()
        text = read(html, url)
        milliseconds.append((time.process_time() - started) * 1000)
        text = " ".join(text.split())  # as the set itself compares
        found = sum(" ".join(piece.split()) in text for piece in page["with"])
        unwanted = sum(" ".join(piece.split()) in text for piece in page["without"])
        kept, missed = kept + found, missed + len(page["with"]) - found
        wrong, dropped = wrong + unwanted, dropped + len(page["without"]) - unwanted
    precision, recall = kept / (kept + wrong), kept / (kept + missed)
    return {
        "pages": len(milliseconds),
        "precision": round(precision, 3),
        "recall": round(recall, 3),
        "f1": round(2 * precision * recall / (precision + recall), 3),
        "accuracy": round((kept + dropped) / (kept + dropped + missed + wrong), 3),
        "median_ms": round(statistics.median(milliseconds), 1),
        "slowest_ms": round(max(milliseconds)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--standard", action="store_true")
    parser.add_argument("--limit", type=int, default=100_000)
    arguments = parser.parse_args()

    def read_main_text(html: str, url: str) -> str:
        return read_html(html, url).text

    read = read_with_standard_parser if arguments.standard else read_main_text
    print(json.dumps(measure(arguments.folder, read, arguments.limit)))


if __name__ == "__main__":
    main()
