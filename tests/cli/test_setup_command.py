"""`hermes setup`, `model`, `doctor`: against a server that really answers."""

import json
import os
import pty
import re
import signal
import stat
import subprocess
from pathlib import Path

from hermes_command import Hermes

from hermes.cli import exit_codes


def test_setup_proves_the_key_before_it_is_kept(hermes: Hermes, model_server: str) -> None:
    words = ("setup", "--provider", "openai", "--base-url", model_server, "--model", "m1")
    wrong = hermes(*words, "--key-stdin", stdin="bad-key")
    assert wrong.returncode == exit_codes.MODEL
    assert "that key is wrong" in wrong.stderr
    assert not hermes.home.exists()
    right = hermes(*words, "--key-stdin", stdin="good-key\n")
    assert right.returncode == 0, right.stderr
    assert "openai:m1 answers" in right.stdout
    assert "good-key" not in right.stdout
    assert (hermes.home / ".env").read_text() == "OPENAI_API_KEY=good-key\n"
    assert stat.S_IMODE((hermes.home / ".env").stat().st_mode) == 0o600
    assert hermes("config", "get", "model.default").stdout == "openai:m1\n"


def test_a_key_for_a_server_of_ones_own_gets_a_name(hermes: Hermes, model_server: str) -> None:
    words = ("setup", "--provider", "my-box", "--base-url", model_server, "--model", "m1")
    done = hermes(*words, "--key-stdin", stdin="good-key\n")
    assert done.returncode == 0, done.stderr
    assert (hermes.home / ".env").read_text() == "MY_BOX_API_KEY=good-key\n"
    assert "answered" in hermes("model", "test").stdout


def test_a_place_that_does_not_exist_is_refused_and_later_found(hermes: Hermes) -> None:
    done = hermes("setup", "--backend", "moon", "--no-test")
    assert done.returncode == exit_codes.SETTINGS
    assert "sandbox" in done.stderr
    assert not hermes.home.exists()
    hermes("config", "set", "terminal.backend", "moon")
    assert "there is no environment 'moon'" in hermes("config", "check").stderr


def test_setup_keeps_what_it_was_not_told_to_change(hermes: Hermes) -> None:
    hermes("config", "set", "agent.max_depth", "3")
    hermes("config", "set", "OPENAI_API_KEY", "kept")
    done = hermes("setup", "--provider", "openai", "--model", "m2", "--no-test")
    assert done.returncode == 0, done.stderr
    assert hermes("config", "get", "agent.max_depth").stdout == "3\n"
    assert "OPENAI_API_KEY=kept" in (hermes.home / ".env").read_text()
    done = hermes("setup", "--backend", "ssh", "--no-test")
    assert done.returncode == 0, done.stderr
    assert hermes("config", "get", "terminal.backend").stdout == "ssh\n"
    assert hermes("config", "get", "model.default").stdout == "openai:m2\n"


def test_setup_says_which_key_is_still_missing(hermes: Hermes) -> None:
    done = hermes("setup", "--provider", "anthropic", "--no-test")
    assert done.returncode == 0
    assert "hermes config set ANTHROPIC_API_KEY" in done.stderr
    assert hermes("config", "get", "model.default").stdout.startswith("anthropic:claude")


def test_setup_without_anybody_to_ask_says_what_to_give(hermes: Hermes) -> None:
    done = hermes("setup")
    assert done.returncode == exit_codes.USAGE
    assert "--provider" in done.stderr


def test_an_unknown_provider_is_told_the_nearest(hermes: Hermes) -> None:
    done = hermes("setup", "--provider", "opnai", "--model", "x", "--no-test")
    assert done.returncode == exit_codes.SETTINGS
    assert "did you mean 'openai'" in done.stderr
    assert not hermes.home.exists()


def converse(hermes: Hermes, answers: list[tuple[str, str]], until: str = "Done.") -> str:
    """Answer the questions of `hermes setup` at a terminal; ends it after the last one."""
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        [*hermes.command, "setup"], env=hermes.env, stdin=inner, stdout=inner, stderr=inner
    )
    os.close(inner)
    shown = ""
    for question, answer in [*answers, (until, "")]:
        seen = len(shown)
        while question not in shown[seen:]:
            shown += os.read(outer, 4096).decode()
        os.write(outer, f"{answer}\n".encode())
    if until != "Done.":
        process.send_signal(signal.SIGINT)
    assert (process.wait(timeout=120) == 0) == (until == "Done.")
    os.close(outer)
    return shown


def test_the_wizard_tests_the_key_when_it_is_given_and_keeps_it(
    hermes: Hermes, model_server: str
) -> None:
    hermes("config", "set", "model.providers.openai.base_url", model_server)
    answers = [
        ("serves the model?", "openai"),
        ("Which model?", "m3"),
        ("OPENAI_API_KEY", "bad-key"),
        ("anyway?", "n"),
        ("OPENAI_API_KEY", "good-key"),
        ("commands run?", ""),
        ("Which mode?", "act"),
        ("Which?", "ask"),
        ("Which chat?", ""),
    ]
    shown = converse(hermes, answers)
    assert hermes("config", "get", "watch.mode").stdout == "act\n"
    assert "good-key" not in shown
    assert "that key is wrong" in shown
    assert (hermes.home / ".env").read_text() == "OPENAI_API_KEY=good-key\n"
    assert hermes("config", "get", "model.default").stdout == "openai:m3\n"
    assert hermes("config", "get", "policy.announce").stdout == "0.0\n"
    assert not (hermes.home / "setup-answers.json").exists()


def test_an_interrupted_setup_continues_with_the_answers_already_given(
    hermes: Hermes, model_server: str
) -> None:
    hermes("config", "set", "model.providers.openai.base_url", model_server)
    begun = [("serves the model?", "openai"), ("Which model?", "m3")]
    converse(hermes, begun, until="OPENAI_API_KEY")
    assert hermes("config", "get", "model.default").stdout != "openai:m3\n", "not tested yet"
    again = [("Continuing: provider openai, model m3", ""), ("[m3]", "")]
    shown = converse(hermes, [*again, ("OPENAI_API_KEY", "good-key")], until="commands run?")
    assert "openai:m3 answers" in shown
    assert hermes("config", "get", "model.default").stdout == "openai:m3\n"
    assert (hermes.home / ".env").read_text() == "OPENAI_API_KEY=good-key\n"


def without_package(hermes: Hermes, name: str) -> None:
    """Start it from now on in an interpreter in which that package is not installed."""
    folder = hermes.home.parent / "without"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "from importlib.machinery import PathFinder\n"
        "class Without:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        return None if name == {name!r} else PathFinder.find_spec(name, path, target)\n"
        "sys.meta_path[sys.meta_path.index(PathFinder)] = Without()\n"
    )
    hermes.env["PYTHONPATH"] = os.pathsep.join((str(folder), hermes.env["PYTHONPATH"]))


def test_the_wizard_names_the_missing_extra_and_asks_again(
    hermes: Hermes, model_server: str
) -> None:
    without_package(hermes, "xllamacpp")
    hermes("config", "set", "model.providers.openai.base_url", model_server)
    answers = [("serves the model?", "local"), ("Install it with:", "openai")]
    shown = converse(hermes, answers, until="Which model?")
    assert "pip install 'hermes-oncall[local]'" in shown


def test_the_local_model_without_its_extra_is_refused_with_the_command_to_install(
    hermes: Hermes,
) -> None:
    without_package(hermes, "xllamacpp")
    for words in (("setup", "--provider", "local"), ("model", "test", "local:")):
        done = hermes.process(*words)
        assert done.returncode == exit_codes.SETTINGS, done.stderr
        assert "pip install 'hermes-oncall[local]'" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_key_is_kept_untested_when_there_is_no_connection(hermes: Hermes) -> None:
    words = ("setup", "--provider", "openai", "--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    done = hermes(*words, "--key-stdin", stdin="new-key")
    assert done.returncode == 0, done.stderr
    assert "not tested: no server is listening there" in done.stdout
    assert (hermes.home / ".env").read_text() == "OPENAI_API_KEY=new-key\n"


def test_restarts_can_be_made_to_wait_for_an_answer(hermes: Hermes) -> None:
    assert hermes("setup", "--announce", "0").returncode == 0
    assert hermes("config", "get", "policy.announce").stdout == "0.0\n"


def test_the_mode_of_the_watch_is_one_answer(hermes: Hermes) -> None:
    assert hermes("setup", "--mode", "observe").returncode == 0
    assert hermes("config", "get", "watch.mode").stdout == "observe\n"
    assert hermes("setup", "--mode", "yolo").returncode == exit_codes.USAGE


def test_a_model_is_tested_and_switched(hermes: Hermes, model_server: str) -> None:
    hermes("config", "set", "model.providers.box.base_url", model_server)
    trial = json.loads(hermes("model", "test", "box:m", "--json").stdout)
    assert (trial["answer"], trial["output_tokens"]) == ("ready", 1)
    assert hermes("model", "set", "box:m", "--role", "cheap").returncode == 0
    roles = json.loads(hermes("model", "--json").stdout)["roles"]
    assert roles["cheap"]["model"] == "box:m"
    assert roles["default"]["model"] != "box:m"
    refused = hermes("model", "set", "bx:m")
    assert refused.returncode == exit_codes.SETTINGS
    assert "did you mean 'box'" in refused.stderr


def test_models_are_listed_with_windows_and_prices(hermes: Hermes) -> None:
    listed = json.loads(hermes("model", "list", "--provider", "anthropic", "--json").stdout)
    assert listed["models"]
    for row in listed["models"]:
        assert row["model"].startswith("anthropic:")
        assert row["window"] > 0
        assert row["input_usd"] > 0
    assert listed["aliases"]["sonnet"].startswith("openrouter:")


def findings(hermes: Hermes, *words: str) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(hermes("doctor", "--json", *words).stdout)["findings"]:
        found.setdefault(finding["about"], []).append(finding)
    return found


def test_the_doctor_finds_no_problem_in_a_working_installation(
    hermes: Hermes, model_server: str
) -> None:
    hermes("config", "set", "model.providers.box.base_url", model_server)
    hermes("model", "set", "box:m")
    done = hermes("doctor")
    assert done.returncode == 0, done.stdout
    assert "✓ environment: local: ready" in done.stdout
    found = findings(hermes)
    assert found["server"][0]["state"] == "ok"
    assert found["home"][0]["state"] == "ok"
    assert {place["text"].partition(":")[0] for place in found["place"]} >= {"local", "docker"}


def test_the_doctor_sees_a_home_that_cannot_be_made(hermes: Hermes) -> None:
    hermes.home.parent.joinpath("file").write_text("in the way")
    done = hermes("doctor", "--offline", env={"HERMES_HOME": f"{hermes.home.parent}/file/home"})
    assert done.returncode == exit_codes.FAILED
    assert "cannot be written" in done.stdout
    assert "set HERMES_HOME to a folder of yours" in done.stdout


def test_the_doctor_names_each_problem_and_its_fix(hermes: Hermes) -> None:
    hermes("config", "set", "model.providers.box.base_url", "http://127.0.0.1:9/v1")
    hermes("config", "set", "model.providers.box.key_variable", "BOX_API_KEY")
    hermes("model", "set", "box:m")
    hermes("config", "set", "terminal.backend", "moon")
    hermes("config", "set", "FAL_KEY", "x")
    (hermes.home / ".env").chmod(0o644)
    assert hermes("doctor").returncode == exit_codes.FAILED
    found = findings(hermes)
    assert found["key"][0]["fix"] == "hermes setup, or: hermes config set BOX_API_KEY"
    assert "127.0.0.1:9 cannot be reached" in found["server"][0]["text"]
    assert "can be read by others" in found["settings"][-1]["text"]
    assert [p["state"] for p in found["place"] if p["text"].startswith("moon")] == ["problem"]
    (hermes.home / "config.yaml").write_text("agnt: 1\n")
    found = findings(hermes)
    assert found["settings"][0]["fix"] == "did you mean agent?"


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


def test_the_doctor_creates_and_changes_nothing(hermes: Hermes) -> None:
    hermes.process("doctor", "--offline")
    assert not hermes.home.exists()
    hermes("config", "set", "agent.max_depth", "3")
    hermes("incident", "open", "something is slow")
    before = contents(hermes.home)
    hermes.process("doctor", "--offline")
    assert contents(hermes.home) == before


def test_the_doctor_names_file_and_line_of_every_broken_file(hermes: Hermes) -> None:
    skill = hermes.home / "skills" / "broken"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("no front matter\n")
    policies, tools = hermes.home / "policies", hermes.home / "tools"
    policies.mkdir()
    tools.mkdir()
    (policies / "mine.yaml").write_text("apiVersion: hermes/v1\nkind: ActionPolcy\n")
    (hermes.home / "probes.yaml").write_text("probes:\n- name: web\n  kind: nosuch\n")
    (tools / "deploy.yaml").write_text("name: [\n")
    assert hermes("doctor", "--offline").returncode == exit_codes.FAILED
    found = findings(hermes, "--offline")
    for about, file in (
        ("policy", policies / "mine.yaml"),
        ("probes", hermes.home / "probes.yaml"),
        ("skills", skill / "SKILL.md"),
        ("tools", tools / "deploy.yaml"),
    ):
        broken = [finding for finding in found[about] if finding["state"] == "problem"]
        assert re.search(rf"{re.escape(str(file))}:\d+(:\d+)?: ", broken[0]["text"]), broken
        assert broken[0]["fix"]
