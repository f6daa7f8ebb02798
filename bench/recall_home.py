"""A throwaway home that the recall benches fill and ask through the command line."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any


class Home:
    """What a user would type: import, embed, recall."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hermes-recall-")
        self.path = Path(self._folder.name)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self._environment = {**kept, "HERMES_HOME": str(self.path), "NO_COLOR": "1"}

    def __enter__(self) -> "Home":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def take_in(self, messages: Iterable[dict[str, Any]]) -> None:
        lines = "\n".join(json.dumps(message) for message in messages)
        self._hermes("sessions", "import", "--jsonl", "-", "--no-embed", "--json", given=lines)

    def embed(self) -> None:
        self._hermes("sessions", "embed")

    def ask(self, questions: Sequence[dict[str, Any]], limit: int) -> list[list[str]]:
        """The ids of the source messages for each question, the best first."""
        lines = "\n".join(json.dumps(question) for question in questions)
        told = self._hermes(
            "recall", "--jsonl", "-", "--limit", str(limit), "--json", given=lines
        ).splitlines()
        answers = [json.loads(line)["ids"] for line in told if line.strip()]
        if len(answers) != len(questions):
            raise SystemExit(f"{len(questions)} questions, but {len(answers)} answers")
        return answers

    def _hermes(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-m", "hermes.cli", *arguments],
            input=given,
            capture_output=True,
            text=True,
            env=self._environment,
        )
        if done.returncode:
            raise SystemExit(f"hermes {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout
