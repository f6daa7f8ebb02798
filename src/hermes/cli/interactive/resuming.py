"""Coming back to a session: what was said last, what was cut off, and going on with it."""

from hermes.agent.history import History, recall
from hermes.cli.interactive.desk import Desk
from hermes.cli.interactive.views import exchanges
from hermes.cli.render_lines import call_line

LINES = 8


async def welcome_back(desk: Desk) -> None:
    """Runs as a turn: when one was cut off, it is carried on."""
    lines = exchanges(desk.conversation.messages, desk.terminal.width, last=LINES)
    if lines:
        await desk.terminal.print(desk.look.ink.dim("\n".join(lines)))
    past = await recall(desk.house.journal, desk.conversation.run)
    if not past.open:
        await desk.note(f"back in {desk.conversation.run}")
        return
    await desk.note(cut_off(past, desk.terminal.width))
    await desk.conversation.carry_on()


def cut_off(past: History, width: int) -> str:
    """What a turn that never ended was doing. A call may or may not have taken effect."""
    calls = past.unanswered()
    if not calls:
        return "the last turn was cut off before its answer; going on with it"
    rows = [f"the last turn was cut off in {len(calls)} tool call(s); going on with it:"]
    for call in calls:
        again = "will run again" if past.may_run(call) else "may have taken effect; not run again"
        rows.append(f"  {call_line(call, width - 44)} — {again}")
    return "\n".join(rows)
