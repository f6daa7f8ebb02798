"""What is asked elsewhere is told once, with the words that answer it."""

from typing import Any

import pytest

from hermes.cli.render.transcript import UnapprovedCalls, approval_lines
from hermes.core.events.approvals import (
    ActionAnnounced,
    ApprovalEscalated,
    ApprovalEvent,
    ApprovalRequested,
    ApprovalSettled,
)
from hermes.core.events.tools import ToolApproved, ToolDecided, ToolRequested
from hermes.core.messages import ToolCall


def request(**more: Any) -> ApprovalRequested:
    return ApprovalRequested(
        run="r", approval="ask-1", call_id="c", tool="t", shown="rm\x1b[2J x", **more
    )


def settled(outcome: Any, **more: Any) -> ApprovalSettled:
    return ApprovalSettled(run="r", approval="ask-1", outcome=outcome, **more)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (request(), "hermes approvals approve ask-1"),
        (request(prompted=True), ""),
        (
            ActionAnnounced(run="r", call_id="c", shown="x", seconds=30.0, approval="ask-1"),
            "hermes approvals stop ask-1",
        ),
        (ApprovalEscalated(run="r", approval="ask-1", to=("lea",)), "lea may answer as well"),
        (settled("approved", by=("ann", "ben"), via="cli"), "approved by ann, ben (cli)"),
        (settled("denied", by=("me",), via="terminal"), ""),
        (settled("expired"), "no one approved it in time"),
        (settled("changed", by=("ann",)), "has changed: not run"),
        (settled("withdrawn"), ""),
        (settled("approved"), ""),
        (settled("approved", by=("me",), via="terminal", note="kept once"), "kept once"),
    ],
)
def test_each_is_told_in_a_line_or_not_at_all(event: ApprovalEvent, words: str) -> None:
    told = "\n".join(approval_lines(event, 80))
    assert words in told
    assert bool(told) is bool(words)
    assert "\x1b" not in told


def test_what_nobody_could_approve_ends_in_a_hint() -> None:
    refused = UnapprovedCalls()
    assert refused.hint() == ""
    refused.feed(ToolRequested(run="r", call=ToolCall("c", "terminal", {"command": "make it"})))
    refused.feed(ToolDecided(run="r", call_id="c", verdict="ask", rule="x", reason="why"))
    refused.feed(ToolApproved(run="r", call_id="c", approved=False, by="nobody"))
    refused.feed(ToolApproved(run="r", call_id="other", approved=False, by="nobody"))
    assert "💻 make it  (rule x: why)" in refused.hint()
    assert "policy.wait=true" in refused.hint()
