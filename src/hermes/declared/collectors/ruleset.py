"""Reads the rules of the packet filter from the output of nft.

A rule is one item with its chain and its text as the key; each chain is one with its policy.
"""

import re
from collections.abc import Iterator

from hermes.declared.packet_filter import NOT_EXACT
from hermes.declared.state import FOLLOWS, HANDLE, PLACE, RULESET, Item, ItemId

MAX_RULES = 2_000
"""With more rules, as of a cluster, none of them is recorded."""
_MANAGED_CHAIN = re.compile(
    r"DOCKER(?!-USER$)|KUBE-|f2b-|cali-|CNI-|NETAVARK|CILIUM|FLANNEL|LIBVIRT_|ts-"
)
_MANAGED_TABLE = re.compile(r" (?:docker-bridges|f2b-table|kube-proxy|netavark|cilium)$")
"""Programs change their rules all the time, with each container and each blocked address."""
_HANDLE = re.compile(r" # handle (\d+)$")
_BLOCK = re.compile(r"(\w[\w ]*?) (\S+(?: \S+)?) \{(?: # handle (\d+))?$")
_POLICY = re.compile(r" policy (\w+);")
_PLAIN_TEXT = re.compile(r"[\w .,:/@{}\"!=<>&|*+()\[\]-]+")
_EXTENSION = re.compile(r"\bxt (?:match|target)\b")
"""Of iptables: nft can print it, but not read it."""


def parse_ruleset(text: str) -> dict[ItemId, Item]:
    """Of `nft -s -t -a list ruleset`. Raises `ValueError`."""
    items = {RULESET: Item()}
    table, block = "", list[str]()
    for line in _joined_lines(text):
        if line == "}":
            table = ""
        elif table:
            block.append(line)
            if line == "\t}":
                items.update(_chain_items(table, block))
        elif line.strip():
            found = _BLOCK.match(line)
            if found is None or found[1] != "table":
                raise ValueError(f"not the beginning of a table: {line[:80]}")
            table = found[2]
        if line in ("}", "\t}", "") or not line.startswith("\t"):
            block = []
        if len(items) > MAX_RULES:
            raise ValueError(f"more than {MAX_RULES:,} rules")
    if table:
        raise ValueError("the output ends within a table")
    return items


def _joined_lines(text: str) -> Iterator[str]:
    """Comments of rules may contain line breaks."""
    line = ""
    for part in text.split("\n"):
        line = f"{line}\n{part}" if line else part
        if line.count('"') % 2 == 0:
            if not line.startswith("#"):  # a warning
                yield line
            line = ""
    if line:
        raise ValueError("the output ends within quotes")


def _chain_items(table: str, block: list[str]) -> Iterator[tuple[ItemId, Item]]:
    """Those of one chain; nothing for a set or another part of a table."""
    at, found = next(
        ((at, each) for at, line in enumerate(block) if (each := _BLOCK.match(line.strip()))),
        (0, None),
    )
    if found is None or found[1] != "chain":
        return
    if _MANAGED_CHAIN.match(found[2]) or _MANAGED_TABLE.search(table):
        return
    chain, head = f"{table} {found[2]}", found[3] or ""
    lines = [line.strip() for line in block[at + 1 : -1]]
    while lines and lines[0].startswith(("comment ", "type ")) and not _HANDLE.search(lines[0]):
        lines.pop(0)
    yield ItemId("packet-filter", chain), Item("", _chain_attributes(block[at + 1 :]))
    rules, counts = list(_rules(lines)), dict[str, int]()
    for number, (text, handle) in enumerate(rules):
        words = " ".join(text.split())
        counts[words] = counts.get(words, 0) + 1
        again = f" ({counts[words]})" if counts[words] > 1 else ""
        attributes = {
            HANDLE: handle,
            FOLLOWS: rules[number - 1][1] if number else head,
            PLACE: _place(number, len(rules)),
        }
        if words != text or not _is_plain(words):
            attributes[NOT_EXACT] = "yes"
        yield ItemId("packet-filter", f"{chain}: {words}{again}"), Item("", attributes)


def _chain_attributes(lines: list[str]) -> dict[str, str]:
    hook = next((each.strip() for each in lines[:2] if each.startswith("\t\ttype ")), "")
    if not hook or _HANDLE.search(hook):
        return {}
    policy = _POLICY.search(hook)
    return {"hook": hook.partition(";")[0]} | ({"policy": policy[1]} if policy else {})


def _rules(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The text and the handle of each; one with a chain of its own has several lines."""
    unfinished = ""
    for line in lines:
        unfinished = f"{unfinished}\n{line}" if unfinished else line
        if end := _HANDLE.search(unfinished):
            yield unfinished[: end.start()], end[1]
            unfinished = ""


def _place(number: int, count: int) -> str:
    if count == 1:
        return "only"
    return {0: "first", count - 1: "last"}.get(number, "middle")


def _is_plain(text: str) -> bool:
    """Return whether nft reads it as this one rule: no comment can be a second command."""
    balanced = text.count("{") == text.count("}") and text.count('"') % 2 == 0
    return balanced and bool(_PLAIN_TEXT.fullmatch(text)) and not _EXTENSION.search(text)
