"""Input made to break the reader: it asks, it never crashes, and it never takes long."""

import time
from pathlib import Path

import pytest
from reading import effects, read

from hermes.policy.command_analysis import PROGRAM_HANDLERS, analyse_command
from hermes.policy.commands import tables
from hermes.policy.commands.effects import CommandEffect

MULTIPLYING = "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }};" for n in range(12))
HOSTILE = {
    "a megabyte": "ls " + "a" * 1_000_000,
    "a megabyte of commands": "ls;" * 333_333,
    "NUL": "ls\0rm x",
    "bytes that are not UTF-8": b"ls \xff\xfe".decode("utf-8", "surrogateescape"),
    "half a surrogate pair": "ls \ud800",
    "characters of our own": "ls \ue000",
    "a hundred thousand parentheses": "(" * 100_000,
    "substitutions without an end": "$(" * 3000,
    "expansions without an end": "${" * 3000,
    "here-documents without an end": "<<a\n" * 2500,
    "backticks": "`" * 5000,
    "quotes": "\"'" * 2501,
    "too many commands": "ls;" * 400,
    "too many words": "rm " + "x " * 3000,
    "shells within shells": "eval " * 40 + "ls",
    "a function that calls itself": "f() { f; }; f",
    "functions that multiply": MULTIPLYING + "f0",
    "loops in loops": "for i in 1 2 3; do " * 15 + "ls;" + "done;" * 15,
    "an escape sequence": "ls \x1b[2K",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_asks_and_is_quick_about_it(name: str) -> None:
    started = time.thread_time()
    found = analyse_command(HOSTILE[name])
    assert time.thread_time() - started < 1.0
    assert found.effects & {"exec-dynamic", "delete"}, found


def test_a_command_that_deceives_the_eye_names_the_character() -> None:
    assert "U+200B" in read("l\u200bs").dynamic[0]
    assert "U+FF52" in read("\uff52m x").dynamic[0]
    assert "U+202E" in read("ls \u202e").dynamic[0]
    assert "U+000D" in read("ls\r").dynamic[0]


def test_other_alphabets_are_welcome_as_data() -> None:
    for command in ("grep 'ошибка' log", "echo 'größer'", "grep 日本 f", "echo '✅ done'"):
        assert read(command).is_read_only, command
    assert "exec-dynamic" in effects("сat f")


def test_every_entry_of_the_tables_is_well_formed() -> None:
    known = {*CommandEffect.__args__, "dynamic"}  # type: ignore[attr-defined]
    kinds = {
        "runs", "code", "reads", "writes", "deletes", "sql", "uses", "recurses", "nothing", "only",
        "configures", "network-host", "namespace", "context", "logs",
    }  # fmt: skip
    for name in tables.program_names():
        entry = tables.find_program(name)
        assert entry is not None
        verbs = [effect for rule in entry.verb_rules for effect in rule.does]
        options = [effect for rule in entry.option_rules for effect in rule.does]
        assert {*entry.does, *entry.spec.alone.split(), *verbs} <= known, name
        assert set(options) <= known | kinds, name
        assert entry.spec.special == "" or entry.spec.special in PROGRAM_HANDLERS, name
        assert entry.spec.does or entry.spec.special or entry.spec.verbs, name


def test_a_program_can_be_added_by_a_line_of_yaml() -> None:
    folder = Path(tables.__file__).parent / "tables"
    assert {path.stem for path in folder.glob("*.yaml")} == {
        *tables.TABLE_FILES,
        "places",
        "reversible",
    }
