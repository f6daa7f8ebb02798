"""Taint with the real reader of commands: what a run read, and what it is about to do."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from policy_setup import gate, placed

from hermes.core.actions import Action
from hermes.core.messages import Risk, ToolCall
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.command_analysis import analyse_command
from hermes.policy.taint.tracker import TaintTracker


def told(*texts: str, said: str = "") -> TaintTracker:
    """A run `r` that read these texts, after a person said something."""
    taint = TaintTracker()
    taint.record_text("r", said, trusted=True)
    for text in texts:
        taint.record_text("r", text, trusted=False)
    return taint


def carried(taint: TaintTracker, command: str, **more: Any) -> str:
    return tainted(taint, ToolCall("c", "terminal", {"command": command}), **more)


def tainted(
    taint: TaintTracker,
    call: ToolCall,
    *,
    run: str = "r",
    wrote: Sequence[str] = (),
    started: bool = False,
    isolated: bool = True,
) -> str:
    """`wrote` are files that this run wrote before; `started` tells that it is being done."""
    reader = ActionReader(analyse_command)
    for path in wrote:
        reader.run_memory.record_write(run, path, "digest")
    known: dict[str, Any] = {"environment": "local", "target": "here", "origin": "cli"}
    action = Action(call=call, risk=Risk.CHANGE, run=run, isolated=isolated, **known)
    deed = reader.read(action, ActionContext(cwd="/srv/app"))
    if started:
        taint.record_start(action, deed)
    return taint.find_tainted_words(action, deed)


def repairs(kind: str, *, isolated: bool) -> tuple[int, int]:
    """How many ordinary changes there are, and how many are asked about only for their words."""
    corpus = Path(__file__).parents[2] / "bench/corpora/hostile/ordinary.jsonl"
    changes = asked = 0
    for line in corpus.read_text().splitlines():
        session = json.loads(line)
        calls = [] if session["advice"] else session["calls"]
        deaf, policy = gate(set=kind), gate(set=kind)
        policy.record_text("run-1", session["said"], trusted=True)
        for text in session["texts"]:
            policy.record_text("run-1", text, trusted=False)
        for call in calls:
            action = placed(call["name"], Risk.CHANGE, call["arguments"], isolated=isolated)
            asked += deaf.decide(action).verdict == "allow" != policy.decide(action).verdict
            policy.record_start(action)
        changes += len(calls)
    return changes, asked
