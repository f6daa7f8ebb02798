"""What is written to /dev/null is lost, but its mode and owner hold for every program."""

import pytest

from hermes.policy.command_analysis import analyse_command


@pytest.mark.parametrize(
    "command",
    [
        "cp -p /etc/hosts /dev/null",
        "cp -a /etc/hosts /dev/null",
        "install -m 600 /etc/hosts /dev/null",
        "chmod 644 /dev/null",
        "chown app /dev/null",
    ],
)
def test_a_change_of_its_attributes_is_a_change(command: str) -> None:
    found = analyse_command(command, cwd="/")
    assert "write" in found.effects
    assert "/dev/null" in found.changes


@pytest.mark.parametrize("command", ["cp /etc/hosts /dev/null", "echo x > /dev/null"])
def test_what_is_written_to_it_is_none(command: str) -> None:
    assert "/dev/null" not in analyse_command(command, cwd="/").changes
