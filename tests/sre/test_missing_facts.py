"""A fact that is missing takes its sentence with it: no line, command or notice has empty words."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import combinations

import pytest
from missing_facts import gaps

from hermes.skills.supervisors.commands import HostSupervisors
from hermes.sre.escalation.change_lines import change_lines
from hermes.sre.escalation.host_lines import (
    consumer_lines,
    disk_lines,
    error_lines,
    named_lines,
    port_lines,
    process_lines,
)
from hermes.sre.escalation.host_scripts import (
    EscalationSubject,
    ScriptOutput,
    parse_outputs,
)
from hermes.sre.escalation.next_commands import next_commands

NOW = datetime.fromtimestamp(1_800_000_000, UTC)
ROWS = {
    "space": ("/srv", "97%", "12345"),
    "inodes": ("/srv", "97%", "12345"),
    "grows": ("70001", "anna", "/srv/grows.log"),
    "large": ("70001", "1799999000", "anna", "/srv/large.bin"),
    "deleted": ("70001", "4242", "writer", "/srv/gone.log"),
    "crowded": ("70001", "/srv/many"),
    "cpu": ("97", "4242", "anna", "busy --all"),
    "rss": ("70001", "4242", "anna", "busy --all"),
    "descriptors": ("70001", "4242", "anna", "busy --all"),
    "many": ("70001", "busy"),
    "process": ("4242", "4000", "S", "100", "parent", "shop", "shop --serve"),
    "limits": ("4242", "anna", "900", "1000", "1001", "70001"),
    "sessions": ("40", "anna shop local idle"),
    "firewall": ("8000", "tcp dport 8000 drop"),
    "holder": ("8000", "4343", "anna", "other", "other --listen"),
    "hidden": ("8001", "anna"),
    "queue": ("8000", "0F"),
    "free": ("5432",),
    "absent": ("/etc/shop/keys/a", "/etc/shop/keys"),
    "path": ("/etc/shop/shop.conf", "regular file", "anna", "-rw-------"),
    "closed": ("/etc/shop", "anna", "drwx------", "/etc/shop/shop.conf"),
    "resolver": ("10.0.0.1", "1"),
    "unresolved": ("db.internal",),
    "readonly": ("/srv/shop",),
    "pid": ("4545", "rival --serve"),
    "file": ("1799999990", "1799999990", "anna", "-rw-r--r--", "/etc/shop/shop.conf", "0"),
    "package": ("2027-01-15 upgrade libshop",),
    "login": ("anna pts/0",),
}
"""One line of each key, as the scripts print it."""
SUBJECT = EscalationSubject(service="shop", kind="memory", ports=(8000, 8001), disk="/srv")
ERRORS = "permission denied: invalid config /etc/shop/shop.conf, already in use"


def everything(key: str, fields: tuple[str, ...]) -> list[str]:
    """All lines and commands of one row."""
    text = f"{key}=" + "\t".join(fields)
    found = parse_outputs([ScriptOutput("disk", "call", text)], {"call": 1})
    lines = [
        *process_lines(found, SUBJECT),
        *error_lines(found, NOW),
        *port_lines(found, SUBJECT),
        *named_lines(found, ERRORS),
        *disk_lines(found),
        *consumer_lines(found, SUBJECT.kind),
        *change_lines(found, "shop", NOW),
    ]
    commands = next_commands(found, SUBJECT, HostSupervisors(()), [ERRORS])
    return [
        *(each.text for each in lines),
        *(f"{each.command} # {each.what}".strip() for each in commands),
    ]


def with_missing(fields: tuple[str, ...]) -> Iterator[tuple[set[int], tuple[str, ...]]]:
    for size in range(1, len(fields) + 1):
        for missing in combinations(range(len(fields)), size):
            yield {*missing}, tuple("" if n in missing else v for n, v in enumerate(fields))


@pytest.mark.parametrize("key", ROWS)
def test_no_line_of_an_escalation_has_words_without_their_value(key: str) -> None:
    full = everything(key, ROWS[key])
    for missing, fields in with_missing(ROWS[key]):
        shown = everything(key, fields)
        for number in missing:
            assert not gaps(full, shown, ROWS[key][number]), (missing, shown)


def test_every_row_makes_a_line_or_a_command() -> None:
    """Or the property above would not be about it."""
    without, alone = everything("nothing", ("x",)), {*ROWS} - {"queue", "limits", "unresolved"}
    assert [key for key in alone if everything(key, ROWS[key]) == without] == []
