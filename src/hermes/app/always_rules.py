"""Reads the "always" answers again when their file has changed, in this or another process."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.core.actions import Decision
from hermes.core.errors import SettingsError

if TYPE_CHECKING:
    from hermes.policy.rules.evaluation import RuleSet


class AlwaysRulesFile:
    """Watches `always.yaml`, and checks it only when it could change the verdict."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stamp = _file_stamp(file)

    def could_change(self, decision: Decision) -> bool:
        return decision.verdict == "ask" or decision.rule.startswith("always-")

    def changed(self) -> bool:
        stamp = _file_stamp(self._file)
        changed, self._stamp = stamp != self._stamp, stamp
        return changed

    def with_current_rules(self, rules: "RuleSet", home: str) -> "RuleSet":
        """The same rules with the exceptions that the file has now; an invalid file has none."""
        from hermes.policy.approvals.always_allowed import load_always_exceptions

        others = tuple(
            lift for lift in rules.exceptions if not lift.source.startswith(f"{self._file}:")
        )
        try:
            own = load_always_exceptions(self._file, home)
        except SettingsError:
            own = ()
        return replace(rules, exceptions=(*others, *own))


def _file_stamp(file: Path) -> tuple[int, int, int]:
    try:
        stat = file.stat()
    except OSError:
        return 0, 0, 0
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
