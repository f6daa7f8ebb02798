"""What each tool's arguments mean to the gate, and which actions count as the same."""

from typing import Any

import msgspec
import pytest
from policy_setup import HOME, OWN, WORK, call, placed

from hermes.core.messages import Risk
from hermes.policy.actions.action_effects import ActionEffects, ActionLocation
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.command_analysis import analyse_command
from hermes.policy.commands.effects import CommandAnalysis

THERE = ActionContext(cwd=WORK, home=HOME)


def read(tool: str, risk: Risk = Risk.CHANGE, **arguments: Any) -> ActionEffects:
    return ActionReader(analyse_command, own_paths=OWN).read(call(tool, risk, **arguments), THERE)


EFFECTS: list[tuple[str, dict[str, Any], Risk, str]] = [
    ("terminal", {"command": "ls -la"}, Risk.CHANGE, "read"),
    ("terminal", {"command": "rm -rf data", "workdir": "/srv"}, Risk.CHANGE, "delete"),
    ("terminal", {"command": 7}, Risk.CHANGE, "unknown"),
    ("terminal", {}, Risk.CHANGE, "unknown"),
    ("process", {"action": "list"}, Risk.CHANGE, "read"),
    ("process", {"action": "poll", "session_id": "p"}, Risk.CHANGE, "read"),
    ("process", {"action": "kill", "session_id": "p"}, Risk.CHANGE, "service-change"),
    ("process", {"action": "write", "data": "rm -rf x"}, Risk.CHANGE, "delete"),
    ("process", {"action": "submit", "data": "ls"}, Risk.CHANGE, "exec-dynamic"),
    ("process", {"action": "explode"}, Risk.CHANGE, "unknown"),
    ("execute_code", {"code": "print(1)"}, Risk.CHANGE, "exec-dynamic"),
    ("read_file", {"path": "notes.txt"}, Risk.READ, "read"),
    ("read_file", {"path": "~/.ssh/id_rsa"}, Risk.READ, "secret-read"),
    ("read_file", {"path": "/etc/shadow"}, Risk.READ, "secret-read"),
    ("search_files", {"pattern": "x", "path": "src"}, Risk.READ, "read"),
    ("search_files", {"pattern": "x", "path": "~/.aws"}, Risk.READ, "secret-read"),
    ("search_files", {"pattern": "x", "path": "/srv", "glob": ".env"}, Risk.READ, "secret-read"),
    ("search_files", {"pattern": "x", "path": "/srv", "glob": ".env*"}, Risk.READ, "secret-read"),
    ("search_files", {"pattern": "x", "path": "/srv", "glob": "id_*"}, Risk.READ, "secret-read"),
    ("search_files", {"pattern": "x", "path": "a", "glob": "*.{py,pem}"}, Risk.READ, "secret-read"),
    ("search_files", {"pattern": "x", "path": "a", "glob": "**/.ssh/*"}, Risk.READ, "secret-read"),
    ("search_files", {"pattern": "x", "path": "/home/other"}, Risk.READ, "secret-read"),
    ("search_files", {"pattern": "x", "path": "src", "glob": 7}, Risk.READ, "unknown"),
    ("write_file", {"path": "a.txt", "content": "x"}, Risk.CHANGE, "write"),
    ("write_file", {"path": "~/.hermes/policies/x.yaml"}, Risk.CHANGE, "self-change"),
    ("write_file", {"path": ".hermes/policies/x.yaml"}, Risk.CHANGE, "self-change"),
    ("write_file", {"path": "x/../.hermes/policies/y.yaml"}, Risk.CHANGE, "self-change"),
    ("write_file", {"path": ""}, Risk.CHANGE, "unknown"),
    ("patch", {"path": "a.txt", "old": "x", "new": "y"}, Risk.CHANGE, "write"),
    ("patch", {"diff": "--- a/x\n+++ b/x\n@@\n-1\n+2\n"}, Risk.CHANGE, "write"),
    ("patch", {"diff": "---  /etc/passwd\n+++  /etc/passwd\n@@\n-1\n+2\n"}, Risk.CHANGE,
     "irreversible"),
    ("patch", {"diff": f"--- /dev/null\n+++ b/{HOME}/.hermes/config.yaml\n@@\n+2\n"},
     Risk.CHANGE, "self-change"),
    ("patch", {"diff": f"--- {HOME}/.hermes/.env\r\n+++ {HOME}/.hermes/.env\r\n@@\n+2\n"},
     Risk.CHANGE, "self-change"),
    ("todo", {"items": []}, Risk.READ, "read"),
    ("mcp:jira:close", {"id": 3}, Risk.CHANGE, "unknown"),
    ("mcp:jira:purge", {"id": 3}, Risk.DESTROY, "delete"),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "arguments", "risk", "effect"), EFFECTS)
def test_a_call_has_the_effects_of_what_it_would_do(
    tool: str, arguments: dict[str, Any], risk: Risk, effect: str
) -> None:
    assert effect in read(tool, risk, **arguments).effects


@pytest.mark.parametrize("glob", ["*.py", "*.{js,json}", "src/**/*.yml", "[a-c]*.txt", "a b'c*"])
def test_a_search_in_ordinary_files_reads(glob: str) -> None:
    assert read("search_files", Risk.READ, pattern="x", path="src", glob=glob).effects == {"read"}


def test_a_program_in_an_isolated_place_only_writes_there() -> None:
    action = placed("execute_code", Risk.CHANGE, {"code": "x"}, isolated=True)
    assert ActionReader(analyse_command).read(action, THERE).effects == {"write"}


def test_every_file_of_a_diff_is_seen() -> None:
    diff = "--- a/one\n+++ b/one\n@@\n-1\n+2\n--- a/two\t2026\n+++ b/two\t2026\n@@\n-1\n+2\n"
    changes = {path for step in read("patch", diff=diff).steps for path in step.changes}
    assert {f"{WORK}/one", f"{WORK}/two"} <= changes


def test_a_tool_declared_in_yaml_is_its_command() -> None:
    there = msgspec.structs.replace(THERE, command="rm -rf /srv/data")
    deed = ActionReader(analyse_command).read(call("purge", Risk.READ, days=3), there)
    assert "delete" in deed.effects
    assert deed.command == "rm -rf /srv/data"


def test_a_declared_risk_is_believed_when_it_is_worse_than_the_command_looks() -> None:
    there = msgspec.structs.replace(THERE, command="ls")
    assert (
        "delete" in ActionReader(analyse_command).read(call("purge", Risk.DESTROY), there).effects
    )


def typed(
    reader: ActionReader, text: str, action: str = "write", receiver: str = "bash"
) -> ActionEffects:
    there = msgspec.structs.replace(THERE, receiver=receiver)
    given = call("process", action=action, session_id="p1", data=text)
    deed = reader.read(given, there)
    reader.record_start(given, deed)
    return deed


def test_what_is_typed_into_a_shell_is_read_as_commands() -> None:
    assert typed(ActionReader(analyse_command), "ls -la", "submit").effects == {"read"}
    assert "delete" in typed(ActionReader(analyse_command), "rm -rf x", "submit").effects


def test_half_a_line_is_read_together_with_its_other_half() -> None:
    reader = ActionReader(analyse_command)
    typed(reader, "rm -rf ")
    assert "delete" in typed(reader, "data\n").effects
    typed(reader, "echo r")
    typed(reader, "m\n")
    assert typed(reader, "ls\n").effects == {"read"}


@pytest.mark.parametrize("text", ["ls\x7f\x7frm x", "\x1b[A", "\x03", "\x16"])
def test_keys_that_edit_the_line_make_it_unreadable(text: str) -> None:
    assert "exec-dynamic" in typed(ActionReader(analyse_command), text, "submit").effects


@pytest.mark.parametrize("receiver", ["", "python3", "vim notes", "bash -c x", "ssh db1", "psql"])
def test_what_is_typed_into_anything_else_may_do_anything(receiver: str) -> None:
    assert "exec-dynamic" in typed(ActionReader(analyse_command), "ls", "submit", receiver).effects


def write(reader: ActionReader, path: str, content: str, run: str = "run-1") -> None:
    action = placed("write_file", Risk.CHANGE, {"path": path, "content": content}, run=run)
    reader.record_start(action, reader.read(action, THERE))


def shell(reader: ActionReader, command: str, run: str = "run-1") -> ActionEffects:
    return reader.read(placed("terminal", Risk.CHANGE, {"command": command}, run=run), THERE)


@pytest.mark.parametrize(
    "command",
    ["./x.sh", "bash x.sh", f"{WORK}/x.sh", "sh ./x.sh", ". ./x.sh", "cd .. && cd app && ./x.sh"],
)
def test_a_script_that_was_written_and_is_run_is_known_only_at_run_time(command: str) -> None:
    reader = ActionReader(analyse_command)
    write(reader, "x.sh", "rm -rf /srv")
    deed = shell(reader, command)
    assert "exec-dynamic" in deed.effects
    assert any("written in this run" in why for step in deed.steps for why in step.why)


def test_a_script_written_by_a_command_counts_too() -> None:
    reader = ActionReader(analyse_command)
    action = call("terminal", command="echo 'rm -rf /srv' > x.sh")
    reader.record_start(action, reader.read(action, THERE))
    assert "exec-dynamic" in shell(reader, "bash x.sh").effects


def test_looking_at_a_file_that_was_written_is_only_looking() -> None:
    reader = ActionReader(analyse_command)
    write(reader, "x.sh", "rm -rf /srv")
    assert shell(reader, "cat x.sh").effects == {"read"}


def test_another_run_did_not_write_it() -> None:
    reader = ActionReader(analyse_command)
    write(reader, "x.sh", "rm -rf /srv", run="other")
    steps = shell(reader, "bash x.sh").steps
    assert not any("written in this run" in why for step in steps for why in step.why)


def test_the_hash_follows_the_content_of_the_script() -> None:
    reader = ActionReader(analyse_command)
    write(reader, "x.sh", "echo one")
    first = shell(reader, "bash x.sh").hash
    assert shell(reader, "bash x.sh").hash == first
    write(reader, "x.sh", "echo two")
    assert shell(reader, "bash x.sh").hash != first


def test_the_hash_follows_a_script_on_the_disk() -> None:
    content = {"now": "a"}
    reader = ActionReader(
        analyse_command, digest=lambda path: content["now"] if path.endswith("x.sh") else ""
    )
    first = shell(reader, "bash x.sh").hash
    content["now"] = "b"
    assert shell(reader, "bash x.sh").hash != first
    assert shell(reader, "ls").hash == shell(reader, "ls").hash


def test_the_same_action_has_the_same_hash_and_any_other_has_not() -> None:
    reader = ActionReader(analyse_command)
    base = placed("terminal", Risk.CHANGE, {"command": "rm x"})
    elsewhere = ActionContext(cwd="/srv/other", home=HOME)
    prod = msgspec.structs.replace(THERE, where=ActionLocation(host="db1"))
    others = [
        reader.read(placed("terminal", Risk.CHANGE, {"command": "rm y"}), THERE),
        reader.read(base, elsewhere),
        reader.read(base, prod),
        reader.read(msgspec.structs.replace(base, environment="docker"), THERE),
        reader.read(msgspec.structs.replace(base, target="db2"), THERE),
        reader.read(placed("terminal", Risk.CHANGE, {"command": "rm x", "pty": True}), THERE),
        reader.read(placed("terminal", Risk.CHANGE, {"command": "rm x", "workdir": ".."}), THERE),
    ]
    hashes = {deed.hash for deed in others}
    assert len(hashes) == len(others)
    slower = placed("terminal", Risk.CHANGE, {"command": "rm x", "timeout": 9.0}, run="another")
    assert reader.read(base, THERE).hash == reader.read(slower, THERE).hash
    assert reader.read(base, THERE).hash not in hashes


def test_half_a_surrogate_pair_is_hashed_like_anything_else() -> None:
    assert read("terminal", command="echo \ud800").hash != read("terminal", command="echo ").hash


def test_a_reader_that_stumbles_lets_nothing_pass() -> None:
    def broken(command: str, **options: object) -> CommandAnalysis:
        raise IndexError("a bug")

    deed = ActionReader(broken).read(call("terminal", command="ls"), THERE)
    assert deed.effects == {"exec-dynamic"}


def test_effects_of_no_single_command_are_not_lost() -> None:
    def vague(command: str, **options: object) -> CommandAnalysis:
        return CommandAnalysis(effects=frozenset({"delete"}), problems=("too long",))

    deed = ActionReader(vague).read(call("terminal", command="x"), THERE)
    assert deed.effects == {"delete", "exec-dynamic"}
    assert deed.dynamic == ("too long",)


@pytest.mark.parametrize(
    ("command", "held"),
    [
        ("ssh host 'find /srv/x -maxdepth 1 -type f | xargs cat'", True),
        ("ssh host 'grep -r KEY /srv/x'", True),
        ('ssh host \'awk "BEGIN{f=\\"/etc/sha\\" \\"dow\\"; getline l < f; print l}"\'', True),
        ("ssh host tar c /srv/x", True),
        ("ssh host 'grep -r ERROR /var/log/app'", False),
        ("ssh host tar tf /srv/x.tar", False),
        ("ssh host cat delete.log", False),
        ("ssh host 'tail -5 /srv/app/app.log | grep -c x'", False),
        ("ssh host \"ps aux | awk '{print \\$1}'\"", False),
        ("grep -r KEY /srv/x", False),
    ],
)
def test_a_search_on_a_host_that_refuses_no_reads_counts_as_reading_secrets(
    command: str, held: bool
) -> None:
    assert ("secret-read" in read("terminal", command=command).effects) == held


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": ".env", "old": "x", "new": "y"},
        {"path": "a.txt", "diff": "--- a/.env\n+++ b/.env\n@@\n-1\n+2\n"},
        {"diff": "--- a/x\n+++ b/x\n@@\n+2\n--- a/keys/id_rsa\n+++ b/keys/id_rsa\n@@\n+2\n"},
    ],
)
def test_a_patch_reads_the_files_that_it_names(arguments: dict[str, str]) -> None:
    """What it does not find, it answers with lines that resemble it."""
    assert "secret-read" in read("patch", **arguments).effects
    assert "secret-read" not in read("patch", path="a.txt", old="x", new="y").effects
