"""`hermes doctor` says whether experiments can copy this host, and why not."""

import json

from hermes_command import Hermes

from hermes.cli.admin.doctor import check_copies
from hermes.cli.admin.environments import EnvironmentReadiness
from hermes.environments.sandboxing import support


def test_a_host_that_cannot_be_copied_is_a_warning_with_the_reason() -> None:
    (found,) = check_copies(EnvironmentReadiness("local", "[Errno 2] move_mount"))
    assert (found.about, found.state) == ("copies", "warning")
    assert found.text == "no copy can be made: [Errno 2] move_mount"
    assert found.fix


def test_the_doctor_tries_a_copy_that_hides_its_own_secrets(hermes: Hermes) -> None:
    hermes.home.mkdir(parents=True, exist_ok=True)
    (hermes.home / "audit.key").write_text("key")
    findings = json.loads(hermes("doctor", "--offline", "--json").stdout)["findings"]
    (found,) = [each for each in findings if each["about"] == "copies"]
    if not support.no_sandbox_reason():
        assert (found["state"], found["text"]) == ("ok", "experiments can copy this host")
    assert (hermes.home / "audit.key").read_text() == "key"
