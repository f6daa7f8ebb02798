"""How many secrets leave the text, how much else does, and what that costs.

`python bench/redaction.py [FOLDER…]` prints one JSON row for each figure. Folders are read as
ordinary text: every redaction in them is counted. Where detect-secrets can be imported, it is
measured on the same corpora as it is meant to be used, file by file.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "policy"))
from secret_corpus import lines, secrets

from hermes.policy.redaction.redactor import REDACTION_MARK, Redactor

LOG_LINE = "2026-01-02T03:04:05Z INFO worker-3 GET /v1/items?limit=5 200 12ms user=alice\n"
MAX_FILE_BYTES = 300_000


def row(detector: str, figure: str, value: float, unit: str) -> None:
    print(json.dumps({"detector": detector, "figure": figure, "value": value, "unit": unit}))


def measure(detector: str, clean: Callable[[str], str]) -> None:
    for name in ("secrets.txt", "secrets_disguised.txt"):
        corpus = secrets(name=name)
        found = sum(secret not in clean(text) for text, _, secret, _ in corpus)
        row(detector, f"found in {name}", round(found / len(corpus), 3), "share")
    harmless = lines("harmless.txt")
    changed = sum(clean(text) != text for text in harmless)
    row(detector, "harmless lines changed", round(changed / len(harmless), 3), "share")
    text = (LOG_LINE * 200)[:12_000]
    row(detector, "12 kB of log", round(min(_cpu(clean, text) for _ in range(20)) * 1000, 2), "ms")


def _cpu(clean: Callable[[str], str], text: str) -> float:
    began = time.process_time()
    clean(text)
    return time.process_time() - began


def ordinary(folders: list[str]) -> None:
    clean, read, taken = Redactor().clean, 0, 0
    for path in (path for folder in folders for path in sorted(Path(folder).rglob("*"))):
        if not path.is_file():
            continue
        try:
            text = path.read_text("utf-8")[:MAX_FILE_BYTES]
        except (OSError, UnicodeDecodeError):
            continue
        read += len(text)
        taken += clean(text).count(REDACTION_MARK) - text.count(REDACTION_MARK)
    row("hermes", "redactions in ordinary files", round(taken / max(read, 1) * 1e6, 2), "per MB")


def detect_secrets() -> Callable[[str], str] | None:
    try:
        scan_file = import_module("detect_secrets.core.scan").scan_file
        default_settings = import_module("detect_secrets.settings").default_settings
    except ImportError:
        return None

    def clean(text: str) -> str:
        with tempfile.NamedTemporaryFile("w", suffix=".log") as file, default_settings():
            file.write(text)
            file.flush()
            for each in [secret.secret_value for secret in scan_file(file.name)]:
                text = text.replace(each or "\0", "")
        return text

    return clean


if __name__ == "__main__":
    measure("hermes", Redactor().clean)
    other = detect_secrets()
    if other is not None:
        measure("detect-secrets", other)
    if sys.argv[1:]:
        ordinary(sys.argv[1:])
