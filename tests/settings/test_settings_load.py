"""Where settings come from, who wins, and what is said when they are wrong."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes.core.errors import SettingsError
from hermes.settings.describe import describe_settings, key_description, setting_values
from hermes.settings.load import load, load_with_problems
from hermes.settings.schema import Settings
from hermes.settings.value_types import list_keys, type_at
from hermes.settings.variable_names import KEY_BY_VARIABLE, key_for_variable


def write(home: Path, config: str = "", env: str = "") -> Path:
    if config:
        (home / "config.yaml").write_text(config)
    if env:
        (home / ".env").write_text(env)
        (home / ".env").chmod(0o600)
    return home


def problems(home: Path, variables: Mapping[str, str] | None = None) -> list[str]:
    loaded, found = load_with_problems(home=home, variables=variables or {})
    assert loaded is None
    return [str(problem).replace(f"{home}/", "") for problem in found]


KEY = {"OPENROUTER_API_KEY": "k"}
"""With it the built-in default answers, and nothing is detected."""


def test_a_home_that_does_not_exist_means_defaults(tmp_path: Path) -> None:
    loaded = load(home=tmp_path / "none", variables=KEY)
    assert loaded.settings == Settings()
    assert loaded.origin("agent.max_iterations").source == "default"
    assert not (tmp_path / "none").exists()


def test_later_sources_win_and_each_value_knows_its_source(tmp_path: Path) -> None:
    write(
        tmp_path,
        "agent:\n  max_iterations: 1\n  max_depth: 5\nmodel:\n  retries: 7\n"
        "terminal:\n  timeout: 11\ndisplay:\n  spinner: off\n",
        "HERMES_MAX_ITERATIONS=2\nTERMINAL_TIMEOUT=22\nHERMES_MODEL__RETRIES=8\n",
    )
    loaded = load(
        home=tmp_path,
        variables={"HERMES_MAX_ITERATIONS": "3", "TERMINAL_TIMEOUT": "33", **KEY},
        overrides={"agent.max_iterations": "4"},
    )
    settings = loaded.settings
    assert settings.agent.max_iterations == 4
    assert settings.agent.max_depth == 5
    assert settings.terminal.timeout == 33
    assert settings.model.retries == 8
    assert settings.display.spinner is False
    origins = {
        key: str(origin).replace(f"{tmp_path}/", "") for key, origin in loaded.origins.items()
    }
    assert origins == {
        "agent.max_iterations": "command line (agent.max_iterations)",
        "agent.max_depth": "config file (config.yaml:3:3)",
        "model.retries": "env file (.env:3 HERMES_MODEL__RETRIES)",
        "terminal.timeout": "environment (TERMINAL_TIMEOUT)",
        "display.spinner": "config file (config.yaml:9:3)",
    }


def test_people_can_be_given_as_one_value_of_the_command_line(tmp_path: Path) -> None:
    people = '{"alice": {"telegram": "1"}, "bob": {"telegram": "1"}}'
    loaded = load(home=tmp_path, variables={}, overrides={"people": '{"alice": {"telegram": "1"}}'})
    assert list(loaded.settings.people) == ["alice"]
    with pytest.raises(SettingsError, match=r"people\.(alice|bob)"):
        load(home=tmp_path, variables={}, overrides={"people": people})


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("TERMINAL_ENV", "docker", "terminal.backend", "docker"),
        ("TERMINAL_CWD", "/srv", "terminal.cwd", "/srv"),
        ("TERMINAL_SSH_HOST", "box", "terminal.ssh_host", "box"),
        ("TERMINAL_SSH_USER", "me", "terminal.ssh_user", "me"),
        ("TERMINAL_SSH_KEY", "/k", "terminal.ssh_key", "/k"),
        ("TERMINAL_SSH_PORT", "2222", "terminal.ssh_port", 2222),
        ("HERMES_MAX_ITERATIONS", "12", "agent.max_iterations", 12),
        ("HERMES_TOOL_PROGRESS", "false", "display.tool_progress", False),
        ("HERMES_TOOL_PROGRESS_MODE", "new", "display.tool_progress_mode", "new"),
        ("DEFAULT_MODEL", "openai:gpt-4o", "model.default", "openai:gpt-4o"),
        ("HERMES_TOOLS__TOOLSETS", "file, planning", "tools.toolsets", ["file", "planning"]),
        ("HERMES_AGENT__LIMITS__RUN_USD", "0.5", "agent.limits.run_usd", 0.5),
        ("HERMES_DISPLAY__SPINNER", "off", "display.spinner", False),
        (
            "HERMES_MODEL__PROVIDERS__BOX__BASE_URL",
            "http://box/v1",
            "model.providers.box.base_url",
            "http://box/v1",
        ),
    ],
)
def test_variables_of_earlier_versions_and_general_ones_work(
    tmp_path: Path, variable: str, text: str, key: str, value: object
) -> None:
    for loaded in (
        load(home=tmp_path, variables={variable: text}),
        load(home=write(tmp_path, env=f"{variable}={text}\n"), variables={}),
    ):
        assert setting_values(loaded.settings)[key] == value
        assert loaded.origin(key).source in ("environment", "env file")


def test_every_variable_of_the_table_sets_a_key_that_exists() -> None:
    for name in KEY_BY_VARIABLE:
        key = key_for_variable(name)
        assert key is not None
        assert type_at(Settings, key) is not None, name


@pytest.mark.parametrize(
    ("inside", "outside", "model"),
    [
        ("", {"LLM_PROVIDER": "openai", "DEFAULT_MODEL": "gpt-4o"}, "openai:gpt-4o"),
        ("DEFAULT_MODEL=gpt-4o\n", {"LLM_PROVIDER": "openai"}, "openai:gpt-4o"),
        ("LLM_PROVIDER=openai\n", {"DEFAULT_MODEL": "gpt-4o"}, "openai:gpt-4o"),
        ("", {"LLM_PROVIDER": "openai", "DEFAULT_MODEL": "nous:Hermes-4"}, "nous:Hermes-4"),
        ("", {"LLM_PROVIDER": "openrouter", "DEFAULT_MODEL": "a/b:free"}, "openrouter:a/b:free"),
    ],
)
def test_a_provider_and_a_model_of_the_old_kind_make_one_reference(
    tmp_path: Path, inside: str, outside: dict[str, str], model: str
) -> None:
    loaded = load(home=write(tmp_path, env=inside), variables=outside)
    assert loaded.settings.model.default == model


def test_a_provider_alone_means_its_first_model(tmp_path: Path) -> None:
    loaded = load(home=tmp_path, variables={"LLM_PROVIDER": "anthropic"})
    assert loaded.settings.model.default.startswith("anthropic:claude")


def test_home_is_where_the_variables_say() -> None:
    assert load(variables={"HERMES_HOME": "/nowhere/a"}).home == Path("/nowhere/a")
    assert load(variables={"PERSISTENT_DIR": "/nowhere/b"}).home == Path("/nowhere/b")


def test_the_environment_wins_over_env_file_for_secrets(tmp_path: Path) -> None:
    write(tmp_path, env="A_KEY=file\nB_KEY=file\n")
    secrets = load(home=tmp_path, variables={"A_KEY": "process"}).secrets
    assert (secrets["A_KEY"], secrets["B_KEY"]) == ("process", "file")
    assert secrets.kept == {"A_KEY", "B_KEY"}


def test_an_empty_variable_counts_as_unset(tmp_path: Path) -> None:
    assert load(home=tmp_path, variables={"TERMINAL_ENV": "", **KEY}).settings == Settings()


def test_all_mistakes_are_told_at_once_each_with_its_place(tmp_path: Path) -> None:
    write(
        tmp_path,
        "model:\n  defualt: x\n  retries: many\nagnt:\n  max_iterations: 3\n  max_depth: 1\n"
        "display:\n  color: blue\nmax_iteration: 4\ntools:\n  sets:\n    a:\n      tols: [x]\n"
        "terminal: [local]\nstore:\n  path:\n    deep: 1\n_config_version: 1\n",
        "HERMES_MAX_ITERATIONS=lots\n",
    )
    assert problems(tmp_path, {"HERMES_AGENT__MAX_DEEPTH": "1"}) == [
        "config.yaml:2:3: unknown key model.defualt; did you mean model.default?",
        "config.yaml:3:3: model.retries: expected a whole number, got 'many'",
        "config.yaml:4:1: unknown key agnt; did you mean agent?",
        "config.yaml:8:3: display.color: expected one of auto, always, never, got 'blue'",
        "config.yaml:9:1: unknown key max_iteration; did you mean agent.max_iterations?",
        "config.yaml:13:7: unknown key tools.sets.a.tols; did you mean tools.sets.a.tools?",
        "config.yaml:14:1: terminal: expected a section of keys, got ['local']",
        "config.yaml:16:3: store.path: expected text, got a section",
        ".env:1 HERMES_MAX_ITERATIONS: agent.max_iterations: expected a whole number, got 'lots'",
        "HERMES_AGENT__MAX_DEEPTH: unknown key agent.max_deepth; did you mean agent.max_depth?",
    ]


def test_a_secret_in_the_config_file_is_sent_to_where_it_belongs(tmp_path: Path) -> None:
    write(tmp_path, "model:\n  api_key: sk-123\n")
    (told,) = problems(tmp_path)
    assert "belong in .env" in told
    assert "sk-123" not in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model:\n\tdefault: x\n", "config.yaml:2:1: not valid YAML: found character that cannot"),
        ("model:\n\tdefault: x\n", "; indent with spaces, not with tabs"),
        ("model: [a, b\n", "config.yaml:2:1: not valid YAML: did not find expected"),
        ("- a\n- b\n", "config.yaml:1:1: expected sections"),
        (
            "agent:\n  max_depth: 1\n  max_depth: 2\n",
            "config.yaml:3:3: agent.max_depth is set twice",
        ),
        ("a: &a\n  b: *a\n", "an alias contains itself"),
        ("model: !!python/object:os.system x\n", "not valid YAML: could not determine"),
        ("_config_version: 99\n", "config.yaml:1:1: _config_version is 99, and this Hermes"),
        ("_config_version: new\n", "config.yaml:1:1: _config_version must be a whole number"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_named_with_its_line(
    tmp_path: Path, text: str, told: str
) -> None:
    write(tmp_path, text)
    (found,) = problems(tmp_path)
    assert told in found


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"model: \xff\xfe\n")
    with pytest.raises(SettingsError, match="not UTF-8 text"):
        load(home=tmp_path, variables={})


def test_a_file_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load(home=tmp_path, variables={})


def test_sections_without_a_line_left_mean_defaults(tmp_path: Path) -> None:
    write(tmp_path, "agent:\n  # max_iterations: 3\nmodel:\n  cheap:\n")
    assert load(home=tmp_path, variables=KEY).settings == Settings()


def test_shared_blocks_of_yaml_work(tmp_path: Path) -> None:
    write(
        tmp_path,
        "tools:\n  sets:\n    a: &a\n      tools: [x]\n      about: first\n"
        "    b:\n      <<: *a\n      about: second\n",
    )
    sets = load(home=tmp_path, variables={}).settings.tools.sets
    assert (sets["b"].tools, sets["b"].about) == (("x",), "second")


def test_an_env_file_that_others_can_read_is_warned_about(tmp_path: Path) -> None:
    write(tmp_path, env="A_KEY=1\n")
    (tmp_path / ".env").chmod(0o640)
    (warning,) = load(home=tmp_path, variables={}).warnings
    assert "can be read by others" in warning


def test_every_key_says_what_it_means(tmp_path: Path) -> None:
    silent = [key for key in list_keys(Settings) if not key_description(key)]
    assert silent == []
    rows = {row.key: row for row in describe_settings(load(home=tmp_path, variables={}))}
    row = rows["agent.max_iterations"]
    assert (row.value, row.source, row.type) == (60, "default", "a whole number")
    assert row.variables == ("HERMES_MAX_ITERATIONS", "HERMES_AGENT__MAX_ITERATIONS")


@pytest.mark.command
def test_loading_without_a_config_file_loads_no_yaml_library(tmp_path: Path) -> None:
    code = (
        "import sys; from hermes.settings.load import load; load(); "
        "print([m for m in ('yaml', 'ruamel', 'difflib', 'click', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"HERMES_HOME": str(tmp_path), "PATH": "", **KEY},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
    write(tmp_path, "agent:\n  max_depth: 2\n")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"HERMES_HOME": str(tmp_path), "PATH": "", **KEY},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "['yaml']"
