"""The second half of a report: what was done about it, whether it holds, and what it cost.

Under "Remediation" only what really ran stands in backticks: undo commands that were not run, and
what was refused, have sections of their own.
"""

from hermes.core.events.incidents import ChangesUndone, IncidentVerified
from hermes.sre.report.account import Account, answered_by
from hermes.sre.report.markdown import begin_of, code, command, words
from hermes.sre.report.prevention import hints, said
from hermes.sre.report.statements import outcome
from hermes.sre.report.times import lasting
from hermes.sre.report.told import Deed, of_kind

LOOKS = 5


def remediation(account: Account, most: int) -> str:
    ran = [deed for deed in account.changes if deed.ending != "cut off"]
    back = {each.call_id: each.taken_back for each in account.incident.changes}
    lines = [
        _step(place, deed, back.get(deed.call_id, "")) for place, deed in enumerate(ran[:most], 1)
    ]
    if len(ran) > most:
        lines.append(f"\n… and {len(ran) - most} more, which the journal has")
    if not ran:
        looks = [deed for deed in account.deeds if deed.ending == "ok" and not deed.changed]
        lines = ["Nothing was changed on the host."]
        if looks:
            lines.append("Commands that only read, among others:")
            lines += [f"- {begin_of(deed.command)}" for deed in looks[: min(most, LOOKS)]]
    text = _section("Remediation", "\n".join(lines))
    return (
        text
        + _ways_back(ran[:most])
        + _cut_off(account, most)
        + _refused(account, most)
        + _undone(account, most)
    )


def verification(account: Account, most: int) -> str:
    incident = account.incident
    lines = [_word(incident.verified)]
    if over := incident.recovered:
        how = f": {words(over.how, 200)}" if over.how else ""
        lines.append(f"The problem ended at {over.recovered_at:%Y-%m-%d %H:%M:%S} UTC{how}.")
    lines += _checked(account, most)
    lines += ["", f"Outcome: {outcome(incident)}"]
    return _section("Verification", "\n".join(lines))


def prevention(account: Account) -> str:
    lines = [f"- {hint}" for hint in hints(account.incident, account.again, account.refused)]
    if by_model := said(account.records):
        lines.append(f"- In the words of the model: {by_model}")
    return _section("Prevention", "\n".join(lines))


def figures(account: Account) -> str:
    times, cost = account.times, account.cost
    spent = f"{cost.calls} model calls, {cost.usage.tokens:,} tokens"
    spent = spent if cost.calls else "no model was called"
    if cost.usage.cost_usd:
        spent += f", ${cost.usage.cost_usd:.4f}"
    lines = [
        f"- Time to detect (MTTD): {lasting(times.detect)}",
        f"- Time to begin (MTTA): {lasting(times.acknowledge)}",
        f"- Time to repair (MTTR): {_repair(account)}",
        f"- Answered by: {words(answered_by(account), 120)}",
        f"- Cost: {spent}; {len(account.deeds)} commands, {len(account.changes)} of them changes",
        # Repeated at the end, because texts of others above may contain such a line.
        f"- Outcome: {outcome(account.incident)}",
    ]
    return _section("Figures", "\n".join(lines))


def _repair(account: Account) -> str:
    seconds = account.times.repair
    return lasting(seconds) if seconds is not None else "not defined, no repair was verified"


def _step(place: int, deed: Deed, taken_back: str) -> str:
    by = f" by {words(deed.by, 80)}" if deed.by else ""
    attempt = f", attempt {deed.attempt}" if deed.attempt else ""
    how = "done" if deed.ending == "ok" else words(deed.detail, 80)
    if deed.way_back:
        how += ", to undo a change"
    if taken_back:
        how += ", undone later" if taken_back == "yes" else ", could not be undone"
    return f"{place}. {command(deed.command)}{by}{attempt}: {how} (event {deed.seq})"


def _ways_back(ran: list[Deed]) -> str:
    known = [(place, deed) for place, deed in enumerate(ran, start=1) if deed.undo]
    if not known:
        return ""
    lines = [f"{place}. {command(deed.undo)}" for place, deed in known]
    return _section("Undo commands", "By the number of the step:\n\n" + "\n".join(lines))


def _cut_off(account: Account, most: int) -> str:
    lines = [
        f"- {command(deed.command)} began and no result was ever written: it may have run. "
        f"Undo: {command(deed.undo) if deed.undo else 'none is known'}"
        for deed in account.changes
        if deed.ending == "cut off"
    ]
    return _section("Cut off", _at_most(lines, most)) if lines else ""


def _refused(account: Account, most: int) -> str:
    lines = []
    for each in account.refused:
        how = words(each.why, 200)
        if each.waiting:
            how += f" (`hermes approvals show {each.waiting}`)"
        lines.append(f"- {command(each.command)}: {how}")
    return _section("Refused or waiting", _at_most(lines, most)) if lines else ""


def _undone(account: Account, most: int) -> str:
    by_call = {deed.call_id: deed for deed in account.deeds}
    lines = []
    for event in of_kind(account.records, ChangesUndone):
        why = f": {words(event.reason, 200)}" if event.reason else ""
        lines.append(f"Changes were undone{why}.\n")
        for call in event.calls:
            lines.append(f"- undone: {_call(by_call.get(call), call)}")
        for call in event.failed:
            lines.append(f"- still in force, could not be undone: {_call(by_call.get(call), call)}")
    return _section("Undone", _at_most(lines, 2 * most)) if lines else ""


def _call(deed: Deed | None, call: str) -> str:
    return begin_of(deed.command) if deed is not None else code(call)


def _word(verified: IncidentVerified | None) -> str:
    if verified is None:
        return "No check has verified a repair."
    again = f" after {words(verified.trigger, 120)} was run again" if verified.trigger else ""
    if verified.ok:
        return f"The checks passed{again}; the verification took {lasting(verified.seconds)}."
    wrong = "; ".join(words(check, 160) for check in verified.checks[:5])
    return f"The checks did not pass{again}" + (f": {wrong}." if wrong else ".")


def _checked(account: Account, most: int) -> list[str]:
    """Of each check the last result of its kind: before, after, and after the trigger."""
    last: dict[str, dict[str, str]] = {}
    for event in account.checks:
        state = "not run" if event.unknown else "passed" if event.ok else "failed"
        detail = "" if event.ok else f" ({words(event.detail, 120)})" if event.detail else ""
        last.setdefault(event.check, {})[event.when] = state + detail
    if not last:
        return []
    names = {"before": "before", "after": "after", "trigger": "with the trigger"}
    lines = [
        f"- {words(check, 120)}: "
        + ", ".join(f"{names[when]} {seen[when]}" for when in names if when in seen)
        for check, seen in last.items()
    ]
    return ["", _at_most(lines, most)]


def _at_most(lines: list[str], most: int) -> str:
    more = [f"- … and {len(lines) - most} more"] if len(lines) > most else []
    return "\n".join([*lines[:most], *more])


def _section(heading: str, body: str) -> str:
    return f"\n\n## {heading}\n\n{body}"
