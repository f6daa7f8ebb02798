"""`hermes config` as a person uses it."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hermes_command import Hermes

from hermes.cli import exit_codes


def test_settings_are_shown_with_where_they_came_from(hermes: Hermes) -> None:
    hermes("config", "set", "agent.max_iterations", "30")
    shown = hermes("config", env={"TERMINAL_ENV": "docker"}).stdout.splitlines()
    line = {words[0]: words[1:] for row in shown if (words := row.split(maxsplit=2))}
    file = hermes.home / "config.yaml"
    assert line["agent.max_iterations"] == ["30", f"config file ({file}:4:3)"]
    assert line["terminal.backend"] == ["docker", "environment (TERMINAL_ENV)"]
    assert line["agent.max_depth"][1] == "default"


def test_a_secret_goes_to_env_and_is_never_shown(hermes: Hermes) -> None:
    secret = "sk-or-v1-0123456789abcdef"
    done = hermes("config", "set", "OPENROUTER_API_KEY", "-", stdin=f"{secret}\n")
    assert done.returncode == 0, done.stderr
    file = hermes.home / ".env"
    assert file.read_text() == f"OPENROUTER_API_KEY={secret}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    said = done.stdout + done.stderr
    for words in ((), ("--json",), ("view",), ("explain", "model")):
        shown = hermes("config", *words)
        said += shown.stdout + shown.stderr
    said += hermes("doctor", "--offline").stdout + hermes("status").stdout
    assert secret not in said
    assert "sk-…cdef" in said


def test_doctor_counts_what_it_warns_of(hermes: Hermes) -> None:
    shown = hermes("doctor", "--offline").stdout.splitlines()
    warnings = sum(line.startswith("!") for line in shown)
    assert warnings
    assert shown[-1] == f"{warnings} warning{'s' if warnings > 1 else ''}"


def test_a_header_that_is_a_key_is_not_shown_either(hermes: Hermes) -> None:
    headers = '{"X-Api-Key": "sk-0123456789abcdef", "X-Title": "ops"}'
    hermes("config", "set", "model.providers.box.base_url", "http://127.0.0.1:9/v1")
    hermes("config", "set", "model.providers.box.headers", headers)
    for words in (("view",), ("view", "--json"), ("get", "model"), ("explain", "model.providers")):
        shown = hermes("config", *words).stdout
        assert "ops" in shown
        assert "0123456789" not in shown


def test_one_value_can_be_asked_for_by_key_or_by_its_old_variable(hermes: Hermes) -> None:
    assert hermes("config", "get", "agent.max_iterations").stdout == "60\n"
    assert hermes("config", "get", "HERMES_MAX_ITERATIONS").stdout == "60\n"
    assert hermes("config", "get", "tools.toolsets").stdout == "default\n"
    assert hermes("config", "get", "display.spinner").stdout == "true\n"
    assert json.loads(hermes("config", "get", "agent.limits", "--json").stdout) == {
        "agent.limits.run_tokens": None,
        "agent.limits.run_usd": None,
        "agent.limits.day_tokens": None,
        "agent.limits.day_usd": None,
        "agent.limits.subagent_tokens": None,
    }


def test_an_override_of_one_call_is_kept_nowhere(hermes: Hermes) -> None:
    words = ("config", "explain", "agent.max_depth")
    shown = hermes("--set", "agent.max_depth=4", *words).stdout
    assert "command line (agent.max_depth)" in shown
    assert not hermes.home.exists()


def test_a_typo_is_named_with_line_and_nearest_key(hermes: Hermes) -> None:
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text("# mine\nmodel:\n  defualt: x\n  retries: many\n")
    done = hermes("config", "check")
    assert done.returncode == exit_codes.SETTINGS
    file = hermes.home / "config.yaml"
    assert done.stdout.splitlines() == [
        f"{file}:3:3: unknown key model.defualt; did you mean model.default?",
        f"{file}:4:3: model.retries: expected a whole number, got 'many'",
    ]
    found = json.loads(hermes("config", "check", "--json").stdout)
    assert not found["ok"]
    assert found["problems"][0]["where"] == f"{file}:3:3"


def test_a_missing_key_is_named_by_the_check(hermes: Hermes) -> None:
    chosen = {"DEFAULT_MODEL": "openrouter:x/y"}
    done = hermes("config", "check", env=chosen)
    assert done.returncode == 0
    assert "OPENROUTER_API_KEY is not set" in done.stderr
    done = hermes("config", "check", env={**chosen, "OPENROUTER_API_KEY": "x"})
    assert "not set" not in done.stderr


def test_a_text_may_look_like_json_or_like_a_list(hermes: Hermes) -> None:
    hermes("config", "set", "agent.personalities.odd", "{be odd}, always")
    assert hermes("config", "get", "agent.personalities.odd").stdout == "{be odd}, always\n"


def test_an_old_file_is_renewed_with_its_comments(hermes: Hermes) -> None:
    hermes.home.mkdir()
    file = hermes.home / "config.yaml"
    file.write_text("model: anthropic:claude-x  # the good one\n# short\nmax_iterations: 9\n")
    warned = hermes("config", "get", "agent.max_iterations")
    assert warned.stdout == "9\n"
    assert "hermes config migrate" in warned.stderr
    hermes("config", "migrate", "--check")
    assert "_config_version" not in file.read_text()
    done = hermes("config", "migrate")
    assert done.returncode == 0, done.stderr
    assert "max_iterations → agent.max_iterations" in done.stdout
    assert "# the good one" in file.read_text()
    assert "# short" in file.read_text()
    assert len(list(hermes.home.glob("config.yaml.v0.*.bak"))) == 1
    assert hermes("config", "migrate").stdout == "config.yaml is up to date\n"


def editor(folder: Path, text: str) -> str:
    script = folder / "editor.py"
    script.write_text(f"import sys; open(sys.argv[1], 'w').write({text!r})\n")
    return f"{sys.executable} {script}"


def test_an_edit_is_checked_afterwards(hermes: Hermes, tmp_path: Path) -> None:
    good = editor(tmp_path, "agent:\n  max_depth: 2\n")
    done = hermes("config", "edit", env={"EDITOR": good})
    assert done.returncode == 0, done.stderr
    assert "in order" in done.stdout
    assert hermes("config", "get", "agent.max_depth").stdout == "2\n"
    bad = editor(tmp_path, "agent:\n  max_deth: 2\n")
    done = hermes("config", "edit", env={"EDITOR": bad})
    assert done.returncode == exit_codes.SETTINGS
    assert "config.yaml:2:3: unknown key agent.max_deth" in done.stderr


def test_two_commands_that_set_at_once_lose_nothing(hermes: Hermes) -> None:
    words = [("agent.max_depth", "3"), ("model.retries", "5"), ("display.spinner", "off")]
    running = [
        subprocess.Popen(
            [*hermes.command, "config", "set", *pair], env=hermes.env, stdout=subprocess.DEVNULL
        )
        for pair in words
    ]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    shown = {row["key"]: row for row in json.loads(hermes("config", "--json").stdout)["settings"]}
    assert shown["agent.max_depth"]["value"] == 3
    assert shown["model.retries"]["value"] == 5
    assert shown["display.spinner"]["value"] is False


def test_a_home_below_a_file_says_what_to_do(hermes: Hermes, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    env = {"HERMES_HOME": str(tmp_path / "plain" / "home")}
    done = hermes("config", "set", "agent.max_depth", "2", env=env)
    assert done.returncode == exit_codes.SETTINGS
    assert "cannot write" in done.stderr
    assert "set HERMES_HOME to a folder of yours" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_home_of_somebody_else_says_what_to_do(hermes: Hermes, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o005)
    hermes.home.mkdir(mode=0o755)
    (tmp_path / "first").mkdir()
    words = ["config", "set", "agent.max_depth", "2"]
    code = (
        "import os, sys\n"
        "from hermes.cli.main import main\n"
        f"assert main({words!r}) == 0\n"  # loads all it needs: Python may be closed to others
        "os.setuid(65534)\n"
        f"os.environ['HERMES_HOME'] = {str(hermes.home)!r}\n"
        f"sys.exit(main({words!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**hermes.env, "HERMES_HOME": str(tmp_path / "first")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == exit_codes.SETTINGS, done.stderr
    assert f"cannot write {hermes.home}: Permission denied." in done.stderr


def test_an_env_file_that_others_can_read_is_warned_about(hermes: Hermes) -> None:
    hermes("config", "set", "FAL_KEY", "abc")
    (hermes.home / ".env").chmod(0o644)
    assert "can be read by others" in hermes("config", "path").stderr + hermes("status").stderr


def test_a_value_may_be_a_negative_number_and_stands_apart_from_its_key(hermes: Hermes) -> None:
    done = hermes("config", "set", "TELEGRAM_HOME_CHANNEL", "-1001234567890")
    assert done.returncode == 0, done.stderr
    assert hermes("config", "get", "TELEGRAM_HOME_CHANNEL").stdout.strip() == "-1001234567890"
    joined = hermes("config", "set", "TELEGRAM_HOME_CHANNEL=-5")
    assert joined.returncode == 2
    assert "hermes config set TELEGRAM_HOME_CHANNEL -5" in joined.stderr


def test_an_address_with_which_no_conversation_would_start_is_refused(hermes: Hermes) -> None:
    refused = hermes("config", "set", "systems.shop.url", "http://me:hunter2@127.0.0.1:1")
    assert refused.returncode == 3 and "write http://host:port" in refused.stderr
    assert "hunter2" not in refused.stderr
    assert hermes("config", "set", "systems.shop.url", "http://127.0.0.1:1").returncode == 0
