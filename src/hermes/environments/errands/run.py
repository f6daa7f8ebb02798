"""One command to its end by errands: time bounded, output bounded, nothing of it left behind."""

import contextlib
import time

import anyio

from hermes.core.errors import PlaceFailed
from hermes.core.protocols import CommandResult
from hermes.environments.errands.errand import LOOK, Answer, Errands
from hermes.environments.output import HEAD, whole
from hermes.environments.processes.run import TIMED_OUT

_ENDING = 15.0
"""Seconds to end what was cancelled; a place that takes longer is not asked again."""
_CONTINUED = bytes(range(0x80, 0xC0))
"""Bytes that no character begins with: the rest of one that was cut in two is left out."""


async def run_by_errands(
    errands: Errands, words: bytes, *, tree: str, timeout: float, stdin: bytes, grace: float
) -> CommandResult:
    """`words` is the argv to run, each word ended by NUL; `tree` is the mark among them. After
    the time-out, `grace` seconds lie between asking and killing."""
    started = time.monotonic()
    answer = await _finished(errands, words, tree, timeout, stdin)
    timed_out = answer is None
    if answer is None:
        answer = await errands.send("stop", tree, int(grace * 10), waits=grace)
    output, dropped = _shown(answer)
    return CommandResult(
        exit_code=TIMED_OUT if timed_out else answer.code or 0,
        output=output,
        dropped_bytes=dropped,
        timed_out=timed_out,
        seconds=time.monotonic() - started,
    )


async def _finished(
    errands: Errands, words: bytes, tree: str, timeout: float, stdin: bytes
) -> Answer | None:
    """None when the time was up first, which is counted inside: how long an errand takes on its
    way is not the command's fault. Cancelling kills at once."""
    left, own = timeout, "rest" if stdin else "nothing"
    look = min(left, LOOK)
    try:
        answer = await errands.send(
            *("run", tree, len(words), own, int(look * 1000)), stdin=words + stdin, waits=look
        )
        while answer.code is None and not answer.gone and left > look:
            left -= look
            look = min(left, LOOK)
            answer = await errands.send("await", tree, int(look * 1000), waits=look)
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(_ENDING, shield=True), contextlib.suppress(PlaceFailed):
            await errands.send("stop", tree, 0)
        raise
    if answer.gone:
        raise PlaceFailed(
            f"the files of the running command were removed in {errands.box.id}: what it printed, "
            "and how it ended, is lost"
        )
    return None if answer.code is None else answer


def _shown(answer: Answer) -> tuple[str, int]:
    """The place sends the ends of a long output; what lay between is only counted."""
    dropped = answer.size - len(answer.data)
    if dropped <= 0:
        return answer.data.decode("utf-8", "replace"), 0
    head = whole(answer.data[:HEAD]).decode("utf-8", "replace")
    tail = answer.data[HEAD:].lstrip(_CONTINUED).decode("utf-8", "replace")
    return f"{head}\n[… {dropped:,} bytes left out …]\n{tail}", dropped
