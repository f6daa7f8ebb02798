"""The output of nft is read with texts of any kind, and only sure reverts are commands."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.declared.authors import AuthorSearch, HostLogs
from hermes.declared.collectors.ruleset import MAX_RULES, parse_ruleset
from hermes.declared.diff import describe_change
from hermes.declared.packet_filter import commands_for_copy
from hermes.declared.revert import plan_revert
from hermes.declared.state import RULESET, Item, ItemId, State, StateChange, compare
from hermes.declared.store import StateStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
# As nft 1.0.6 prints it with `-s -t -a`.
RULES = """\
table inet bench { # handle 1
	comment "all of it
}"
	counter cnt { # handle 16
	}

	set s { # handle 9
		type ipv4_addr
		flags dynamic
	}

	map m { # handle 10
		type inet_service : verdict
	}

	flowtable f { # handle 21
		hook ingress priority filter
		devices = { lo }
	}

	chain input { # handle 1
		comment "of the shop"
		type filter hook input priority filter; policy accept;
		tcp dport 6379 drop # handle 2
		tcp dport { 80, 443 } counter accept comment "say a # handle 9 }
	}
x" # handle 4
		tcp dport 22 jump {
			ip saddr 1.2.3.4 accept
			drop
		} # handle 8
		tcp dport vmap @m # handle 11
		tcp dport vmap { 22 : accept, 23 : drop } # handle 13
		drop comment "q" ; flush ruleset; "" # handle 18
		tcp dport 6379 drop # handle 19
	}

	chain empty { # handle 14
	}
}
# Warning: table ip filter is managed by iptables-nft, do not touch!
table ip filter { # handle 2
	chain INPUT { # handle 1
		type filter hook input priority filter; policy drop;
		tcp dport 99 xt match string  counter drop # handle 2
	}

	chain f2b-sshd { # handle 3
		ip saddr 1.2.3.4 counter reject # handle 4
	}

	chain DOCKER-USER { # handle 5
		ip saddr 10.0.0.1 log prefix "a b" # handle 6
	}
}
table netdev nd { # handle 3
	chain i { # handle 1
		type filter hook ingress device "lo" priority filter; policy accept;
	}
}
"""
PLAIN = """\
table inet bench { # handle 1
	chain input { # handle 1
		type filter hook input priority filter; policy accept;
		ct state established accept # handle 2
		tcp dport 6379 drop # handle 3
	}
}
"""


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path)


def rule(key: str, text: str = PLAIN) -> tuple[ItemId, Item]:
    id = ItemId("packet-filter", key)
    return id, parse_ruleset(text)[id]


def test_rules_of_any_text_are_told_apart() -> None:
    found = {id.key: item.attributes for id, item in parse_ruleset(RULES).items()}
    assert [*found] == [
        "rules",
        "inet bench input",
        "inet bench input: tcp dport 6379 drop",
        'inet bench input: tcp dport { 80, 443 } counter accept comment "say a # handle 9 } } x"',
        "inet bench input: tcp dport 22 jump { ip saddr 1.2.3.4 accept drop }",
        "inet bench input: tcp dport vmap @m",
        "inet bench input: tcp dport vmap { 22 : accept, 23 : drop }",
        'inet bench input: drop comment "q" ; flush ruleset; ""',
        "inet bench input: tcp dport 6379 drop (2)",
        "inet bench empty",
        "ip filter INPUT",
        "ip filter INPUT: tcp dport 99 xt match string counter drop",
        "ip filter DOCKER-USER",
        'ip filter DOCKER-USER: ip saddr 10.0.0.1 log prefix "a b"',
        "netdev nd i",
    ]
    by_hand = [key for key, attributes in found.items() if "by-hand" in attributes]
    assert [each.partition(": ")[2][:12] for each in by_hand] == [
        *("tcp dport { ", "tcp dport 22", "drop comment", "tcp dport 99")
    ]
    assert found["ip filter INPUT"]["policy"] == "drop"


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        'table inet a { # handle 1\n\tchain b { # handle 1\n\t\tdrop comment "x # handle 2\n\t}\n}',
        "table inet a { # handle 1\n\tchain b { # handle 1\n\t\tdrop # handle 2",
        "table ip a { # handle 1\n"
        + "".join(f"\tchain c{n} {{ # handle {n}\n\t}}\n" for n in range(MAX_RULES + 1)),
    ],
)
def test_what_cannot_be_read_is_no_ruleset(text: str) -> None:
    with pytest.raises(ValueError, match=r"table|quotes|rules"):
        parse_ruleset(text)


def test_the_same_rules_loaded_again_have_not_changed() -> None:
    before, after = parse_ruleset(PLAIN), parse_ruleset(PLAIN.replace("handle 3", "handle 9"))
    assert before != after
    states = [State(host="h", at=NOW, items=each) for each in (before, after)]
    assert compare(*states) == ()


def test_rules_are_compared_only_where_both_states_have_them() -> None:
    none = State(host="h", at=NOW, items={RULESET: Item()})
    some, unread = replace(none, items=parse_ruleset(PLAIN)), replace(none, items={})
    assert [each.item.key for each in compare(none, some)] == [
        "inet bench input",
        "inet bench input: ct state established accept",
        "inet bench input: tcp dport 6379 drop",
    ]
    assert compare(unread, some) == compare(some, unread) == ()


def test_an_added_rule_is_deleted_by_its_handle(store: StateStore) -> None:
    id, item = rule("inet bench input: tcp dport 6379 drop")
    added = StateChange(id, None, item)
    [step] = plan_revert(added, store, "").steps
    assert step.command == (
        "nft -s -t -a list chain inet bench input | "
        "grep -qxF -- '\t\ttcp dport 6379 drop # handle 3' && "
        "nft delete rule inet bench input handle 3"
    )
    assert step.undo == "nft add rule inet bench input handle 2 tcp dport 6379 drop"
    words = "rule ‘tcp dport 6379 drop’ was added to chain inet bench input"
    assert describe_change(added, store, str) == words
    first = StateChange(*_added("inet bench input: ct state established accept"))
    [step] = plan_revert(first, store, "").steps
    assert step.undo == "nft insert rule inet bench input ct state established accept"


def _added(key: str) -> tuple[ItemId, None, Item]:
    id, item = rule(key)
    return id, None, item


def test_only_the_last_rule_of_a_chain_is_added_again(store: StateStore) -> None:
    last = StateChange(*rule("inet bench input: tcp dport 6379 drop"), None)
    [step] = plan_revert(last, store, "").steps
    assert step.command.endswith(
        "grep -qxF -- '# handle 2' && nft add rule inet bench input tcp dport 6379 drop"
    )
    first = StateChange(*rule("inet bench input: ct state established accept"), None)
    plan = plan_revert(first, store, "")
    assert not plan.steps
    assert "nft add rule inet bench input handle BEFORE ct state established accept" in (
        plan.impossible
    )


@pytest.mark.parametrize("text", ["drop comment", "tcp dport 22", "tcp dport { 80"])
def test_no_command_has_a_text_that_nft_may_read_otherwise(text: str, store: StateStore) -> None:
    items = parse_ruleset(RULES)
    for id, item in items.items():
        if f": {text}" in id.key:
            for change in (StateChange(id, None, item), StateChange(id, item, None)):
                plan = plan_revert(change, store, "")
                assert not plan.steps
                assert plan.impossible


def test_a_policy_is_set_back(store: StateStore) -> None:
    id, item = rule("inet bench input")
    dropping = Item("", {**item.attributes, "policy": "drop"})
    [step] = plan_revert(StateChange(id, item, dropping), store, "").steps
    assert step.command == "nft chain inet bench input '{ policy accept; }'"
    assert step.undo == "nft chain inet bench input '{ policy drop; }'"


def test_without_a_log_its_author_is_unknown() -> None:
    change = StateChange(*_added("inet bench input: tcp dport 6379 drop"))
    author = AuthorSearch(HostLogs(), (), NOW, NOW).find(change)
    assert not author.name
    assert "calls of nft" in author.unknown_because


def test_in_a_copy_a_rule_has_another_handle() -> None:
    id, item = rule("inet bench input: tcp dport 6379 drop")
    there = parse_ruleset(PLAIN.replace("handle 3", "handle 7"))
    assert commands_for_copy(StateChange(id, None, item), there) == [
        ["delete", "rule", "inet", "bench", "input", "handle", "7"]
    ]
    assert commands_for_copy(StateChange(id, item, None), there) == []
