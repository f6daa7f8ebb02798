"""`probes.yaml`: mistakes have lines, what people wrote is theirs, what is new can be added."""

from pathlib import Path

import pytest

from hermes.cli.monitoring.watch import write_probes
from hermes.core.errors import SettingsError
from hermes.sre.probes.discovery import DiscoveryResult
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.probe_file import (
    is_unedited,
    load_probes,
    merge_probes,
    parse_probes,
    probe_file_warnings,
    render_probe_file,
)

FOUND = DiscoveryResult(
    probes=(
        Probe(name="cpu", kind="cpu", fails=4, severity="P3"),
        Probe(name="disk-root", kind="disk", what="/", labels={"now": "failing"}),
        Probe(
            name="page",
            kind="http",
            what="http://127.0.0.1:80/a:b#c",
            contains='it\'s "fine"\n',
            labels={"now": "fine", "team": "yes"},
        ),
        Probe(name="own", kind="command", what="test -e /x && echo 'a # b'", limit=0.5),
    ),
    notes=("no curl\nthere",),
)


def test_what_is_written_reads_back_the_same() -> None:
    text = render_probe_file(FOUND)
    back = parse_probes(text)
    assert [probe.name for probe in back] == ["cpu", "disk-root", "page", "own"]
    assert back[2].what == FOUND.probes[2].what
    assert back[2].contains == FOUND.probes[2].contains
    assert back[2].labels == {"team": "yes"}
    assert back[3] == FOUND.probes[3]
    assert "failing when it was found" in text
    assert is_unedited(text)
    assert not is_unedited(text.replace("fails: 4", "fails: 5"))


def test_every_mistake_is_told_with_its_line() -> None:
    text = """\
probes:
  - name: disk-root
    kind: disk
    intervall: 5
  - name: Port
    kind: port
    what: 80
  - name: page
    kind: http
    what: localhost
  - name: twice
    kind: cpu
  - name: twice
    kind: load
  - name: odd
    kind: dissk
prbes: []
"""
    with pytest.raises(SettingsError) as told:
        parse_probes(text, "p.yaml")
    lines = str(told.value).splitlines()
    assert any(each.startswith("p.yaml:4: intervall") and "interval" in each for each in lines)
    assert any(each.startswith("p.yaml:5:") for each in lines)
    assert any(each.startswith("p.yaml:10:") and "no URL" in each for each in lines)
    assert any(each.startswith("p.yaml:13:") and "twice" in each for each in lines)
    assert any(each.startswith("p.yaml:16:") for each in lines)
    assert any(each.startswith("p.yaml:17:") and "did you mean probes" in each for each in lines)


@pytest.mark.parametrize(
    "text", ["- a\n", "probes: 7\n", "probes: [\n", "x\n", "probes:\n  - 5\n", "a: &a [*a]\n"]
)
def test_what_is_no_list_of_probes_is_said_to_be_none(text: str) -> None:
    with pytest.raises(SettingsError, match=r"probes\.yaml:"):
        parse_probes(text)


def test_an_empty_file_means_that_nothing_is_asked() -> None:
    assert parse_probes("") == ()
    assert parse_probes("# all off\nprobes:\n") == ()


def test_no_file_and_a_file_that_is_no_text_are_told_apart(tmp_path: Path) -> None:
    assert load_probes(tmp_path / "probes.yaml") is None
    (tmp_path / "probes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="cannot be read"):
        load_probes(tmp_path / "probes.yaml")


def test_new_finds_are_added_and_nothing_else_changes() -> None:
    mine = "# mine\nprobes:\n  - name: cpu   # never alone\n    kind: cpu\n    fails: 9\n"
    live = merge_probes(mine, FOUND, live=True)
    assert live.startswith(mine)
    assert [(probe.name, probe.fails) for probe in parse_probes(live)][:2] == [
        ("cpu", 9),
        ("disk-root", 2),
    ]
    assert merge_probes(live, FOUND, live=True) == live
    shy = merge_probes(mine, FOUND, live=False)
    assert [probe.name for probe in parse_probes(shy)] == ["cpu"]
    assert merge_probes(shy, FOUND, live=False) == shy
    assert parse_probes(merge_probes("", FOUND, live=True))[0].name == "cpu"


def test_a_list_that_is_written_in_another_way_is_not_broken() -> None:
    with pytest.raises(SettingsError, match="by hand"):
        merge_probes("probes: [{name: cpu, kind: cpu}]\n", FOUND, live=True)


def test_an_edited_file_is_not_replaced_unless_somebody_says_so(tmp_path: Path) -> None:
    path = tmp_path / "home" / "probes.yaml"
    assert "4 probes" in write_probes(path, FOUND, merge=False, yes=False)
    less = DiscoveryResult(probes=FOUND.probes[:2])
    write_probes(path, less, merge=False, yes=False)
    assert len(load_probes(path) or ()) == 2  # nobody had touched it
    path.write_text(path.read_text().replace("fails: 4", "fails: 7"))
    edited = path.read_text()
    assert "as comments" in write_probes(path, FOUND, merge=False, yes=False)
    assert path.read_text().startswith(edited)
    assert len(load_probes(path) or ()) == 2
    path.write_text(edited)
    assert "2 new probes" in write_probes(path, FOUND, merge=True, yes=False)
    assert next(probe.fails for probe in load_probes(path) or ()) == 7
    write_probes(path, FOUND, merge=False, yes=True)
    assert next(probe.fails for probe in load_probes(path) or ()) == 4


def test_a_broken_file_is_said_to_be_broken_before_it_is_touched(tmp_path: Path) -> None:
    path = tmp_path / "probes.yaml"
    path.write_text("probes: 7\n")
    with pytest.raises(SettingsError):
        write_probes(path, FOUND, merge=False, yes=True)
    assert path.read_text() == "probes: 7\n"


def test_a_key_that_was_never_used_is_named_and_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "probes.yaml"
    path.write_text(
        "probes:\n  - name: here\n    kind: command\n    what: 'true'\n    trigger: x\n"
    )
    assert [each.name for each in load_probes(path) or ()] == ["here"]
    (line,) = probe_file_warnings(path)
    assert line.startswith(f"{path}:5: note: trigger has no effect")
    assert probe_file_warnings(tmp_path / "none.yaml") == []
