"""What a publisher says it has seen its skill solve: cases that can be played again."""

import re
from collections.abc import Sequence

from hermes.skills.lifecycle.replay import Case
from hermes.skills.scanner.finding import Entry

_CASE = re.compile(r'"variant ([\w-]{1,80}) #(\d{1,9})"')


def claimed(evidence: Sequence[Entry]) -> list[Case]:
    """Each once, in the order in which they were measured."""
    found = [match for entry in evidence for match in _CASE.findall(entry.text)]
    return [Case(name=name, seed=int(seed)) for name, seed in dict.fromkeys(found)]
