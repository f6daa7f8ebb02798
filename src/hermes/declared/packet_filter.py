"""Puts the rules of the packet filter back with nft, and says in words what has changed."""

import re
import shlex
from collections.abc import Mapping
from typing import NamedTuple

from hermes.declared.state import FOLLOWS, HANDLE, PLACE, Item, ItemId, StateChange

NOT_EXACT = "by-hand"
"""The attribute of a rule whose text, as it is printed, nft would not read as the same rule."""
_PLAIN_NAME = re.compile(r"[\w./-]+")
Step = tuple[str, str]
"""A command and its undo."""


class RuleName(NamedTuple):
    """The parts of a key; without a text it is that of a chain."""

    family: str
    table: str
    chain: str
    text: str = ""

    @property
    def place(self) -> str:
        return f"{self.family} {self.table} {self.chain}"


def parse_key(key: str) -> RuleName | None:
    """Return None for the item that stands for all rules."""
    start, _, text = key.partition(": ")
    words = start.split(" ")
    if len(words) != 3:
        return None
    family, table, chain = words
    return RuleName(family, table, chain, re.sub(r" \(\d+\)$", "", text))


def revert_steps(change: StateChange) -> list[Step]:
    """The commands for the host, each of which looks first whether the rules are as expected.
    Empty where they are left to people."""
    name, before, after = parse_key(change.item.key), change.before, change.after
    if name is None or not all(map(_PLAIN_NAME.fullmatch, name[:3])):
        return []
    if not name.text:
        policies = [each.attributes.get("policy", "") if each else "" for each in (before, after)]
        if change.differing != ("policy",) or not all(policies):
            return []
        commands = [f"nft chain {name.place} '{{ policy {each}; }}'" for each in policies]
        return [(commands[0], commands[1])]
    text = shlex.quote(name.text) if re.search(r"[^\w ./:-]", name.text) else name.text
    listed = f"nft -s -t -a list chain {name.place}"
    if before is None and after is not None and NOT_EXACT not in after.attributes:
        own, follows = after.attributes[HANDLE], after.attributes[FOLLOWS]
        line = shlex.quote(f"\t\t{name.text} # handle {own}")
        first = after.attributes[PLACE] in ("first", "only")
        back = (
            f"nft insert rule {name.place} {text}"
            if first
            else f"nft add rule {name.place} handle {follows} {text}"
        )
        remove = f"nft delete rule {name.place} handle {own}"
        return [(f"{listed} | grep -qxF -- {line} && {remove}", back)]
    if after is None and before is not None and _can_be_last(before):
        follows = shlex.quote(f"# handle {before.attributes[FOLLOWS]}")
        handles = "grep -oE '# handle [0-9]+$' | tail -n 1"
        line = shlex.quote(f"\t\t{name.text} # handle ")
        own = f"{listed} | grep -F -- {line} | tail -n 1 | grep -oE '[0-9]+$'"
        return [
            (
                f"{listed} | {handles} | grep -qxF -- {follows}"
                f" && nft add rule {name.place} {text}",
                f'nft delete rule {name.place} handle "$({own})"',
            )
        ]
    return []


def _can_be_last(rule: Item) -> bool:
    """Return whether its place is known: the end of the chain."""
    return NOT_EXACT not in rule.attributes and rule.attributes.get(PLACE) in ("last", "only")


def manual_advice(change: StateChange) -> str:
    name, rule = parse_key(change.item.key), change.after or change.before
    if name is None or rule is None:
        return "the rules of the packet filter are read or not"
    if not name.text:
        return f"chains are not added or removed automatically; see: nft -a list chain {name.place}"
    if change.after is None:
        words = name.text if NOT_EXACT not in rule.attributes else "…"
        return (
            "its place among the rules of the chain is not sure, and their order matters; by hand: "
            f"nft -a list chain {name.place}; nft add rule {name.place} handle BEFORE {words}"
        )
    return (
        "nft could not add it again as it is printed, so its removal has no undo; by hand: "
        f"nft delete rule {name.place} handle {rule.attributes.get(HANDLE, 'N')}"
    )


def commands_for_copy(change: StateChange, now: Mapping[ItemId, Item]) -> list[list[str]]:
    """The words of calls of nft that revert it on a copy with the rules `now`, which has other
    handles. Empty where nothing is left to do."""
    name = parse_key(change.item.key)
    assert name is not None
    place, here = list(name[:3]), now.get(change.item)
    if not name.text:
        assert change.before is not None
        return [["chain", *place, f"{{ policy {change.before.attributes['policy']}; }}"]]
    if change.before is None:
        return [["delete", "rule", *place, "handle", here.attributes[HANDLE]]] if here else []
    return [] if here else [["add", "rule", *place, name.text]]


def may_stop_traffic(change: StateChange) -> bool:
    """Return whether something may fail through it: a chain without rules matters by its policy."""
    name = parse_key(change.item.key)
    if name is None or name.text:
        return name is not None
    policies = [each.attributes.get("policy") for each in (change.before, change.after) if each]
    return change.after is not None and "drop" in policies and "policy" in change.differing


def change_words(change: StateChange) -> str:
    """In words, for people; empty for other items."""
    name = parse_key(change.item.key) if change.item.kind == "packet-filter" else None
    if name is None:
        return ""
    if name.text:
        link = "added to" if change.verb == "added" else "removed from"
        return f"rule ‘{name.text}’ was {link} chain {name.place}"
    if change.verb == "changed" and change.before is not None and change.after is not None:
        names = change.differing
        old, new = (
            ", ".join(f"{each} {side.attributes.get(each, 'none')}" for each in names)
            for side in (change.before, change.after)
        )
        return f"chain {name.place}: {old} was changed to {new}"
    return f"chain {name.place} was {change.verb}"
