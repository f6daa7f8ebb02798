"""`hermes hooks`: a person sees, tries and trusts them; the agent cannot."""

import json
import os
import pwd
from pathlib import Path

from hermes_command import Hermes

USER = pwd.getpwuid(os.getuid()).pw_name


def add_hook(home: Path, handler: str = "#!/bin/sh\necho told $1\ncat\n") -> Path:
    folder = home / "hooks/page-me"
    folder.mkdir(parents=True)
    (folder / "HOOK.yaml").write_text("events: ['incident:*']\ndescription: Pages me\n")
    (folder / "handler").write_text(handler)
    for each in (folder.parent, folder, folder / "handler"):
        each.chmod(0o755)
    (folder / "HOOK.yaml").chmod(0o644)
    return folder


def test_a_hook_is_listed_trusted_and_loses_it_by_a_change(hermes: Hermes) -> None:
    assert "no hook" in hermes("hooks").stderr
    folder = add_hook(hermes.home)
    assert "not trusted yet" in hermes("hooks", "list").stdout
    done = hermes("hooks", "trust", "page-me", "--json")
    assert json.loads(done.stdout)["by"] == USER
    [row] = json.loads(hermes("hooks", "list", "--json").stdout)
    assert (row["trusted"], row["events"], row["reason"]) == (True, ["incident:*"], "")
    with (folder / "handler").open("a") as file:
        file.write("# changed\n")
    assert "its files changed" in hermes("hooks", "list").stdout
    assert "its files changed" in json.loads(hermes("status", "--json").stdout)["hooks"]["page-me"]


def test_a_hook_is_untrusted_and_what_is_wrong_is_said(hermes: Hermes) -> None:
    add_hook(hermes.home)
    hermes("hooks", "trust", "page-me")
    assert json.loads(hermes("hooks", "untrust", "page-me", "--json").stdout)["trusted"] is False
    assert f"not trusted: by {USER}" in hermes("hooks").stdout
    again = hermes("hooks", "untrust", "page-me")
    assert (again.returncode, "is not trusted" in again.stderr) == (3, True)
    missing = hermes("hooks", "trust", "page-you")
    assert (missing.returncode, "did you mean page-me?" in missing.stderr) == (3, True)


def test_a_test_runs_it_once_and_the_log_keeps_it(hermes: Hermes) -> None:
    add_hook(hermes.home)
    done = hermes("hooks", "test", "page-me", "--event", "incident:opened")
    assert done.returncode == 0, done.stderr
    assert "told incident:opened" in done.stdout and '"test":true' in done.stdout
    [row] = json.loads(hermes("hooks", "log", "page-me", "--json").stdout)
    assert (row["number"], row["outcome"]) == (0, "ran")
    wrong = hermes("hooks", "test", "page-me", "--event", "incident:open")
    assert (wrong.returncode, "incident:opened" in wrong.stderr) == (2, True)


def test_a_test_that_fails_has_its_exit_code(hermes: Hermes) -> None:
    add_hook(hermes.home, "#!/bin/sh\nexit 4\n")
    done = hermes("hooks", "test", "page-me", "--json")
    assert (done.returncode, json.loads(done.stdout)["detail"]) == (1, "exit code 4")


def test_the_agent_can_neither_trust_nor_write_a_hook(hermes: Hermes) -> None:
    for command in (
        "hermes hooks trust page-me",
        f"echo x > {hermes.home}/hooks/page-me/handler",
        f"chmod +x {hermes.home}/hooks/page-me/handler",
    ):
        found = json.loads(hermes("policy", "check", "--json", "--", command).stdout)
        assert found["verdict"] == "deny", command
