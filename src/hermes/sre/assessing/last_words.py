"""What a sick service itself says, for the people who are called because nobody has an answer.

Only then: after words of strangers a run's own are suspect, and nothing is done any more.
"""

import re

from hermes.core.ids import new_id
from hermes.core.messages import ToolCall, Value
from hermes.skills.playbook.ending import ended
from hermes.skills.playbook.setting import Execute
from hermes.sre.assessing.whole_host import look_at, read_logs

LONGEST = 160
_REQUEST = re.compile(r"\b(?:GET|POST|PUT|DELETE|PATCH|HEAD) /")
"""That an answer was bad is known; why it was, other lines tell."""
TIMEOUT = 15.0


class LastWords(Value, kw_only=True, frozen=True):
    unit: str
    line: str
    call: str
    """The look that showed it."""

    def __str__(self) -> str:
        return f"{self.unit.removesuffix('.service')} says: {self.line}"


async def last_words(execute: Execute, service: str) -> LastWords | None:
    """The last complaint in the log of this service, else in the log that complains most."""
    command = look_at("words")
    call = ToolCall(new_id("assess"), "terminal", {"command": command, "timeout": TIMEOUT})
    result = ended(await execute(call), command, 0.0)
    if result.status != "ok" or result.timed_out:
        return None
    complaining = [log for log in read_logs(result.output).values() if log.said]
    if not complaining:
        return None
    own = [log for log in complaining if log.unit.removesuffix(".service") == service]
    log = own[0] if own else max(complaining, key=lambda each: each.errors)
    telling = [line for line in log.said if not _REQUEST.search(line)] or log.said
    return LastWords(unit=log.unit, line=" ".join(telling[-1].split())[:LONGEST], call=call.id)
