"""A tool whose provider cannot be used is not offered, and says what would bring it."""

import json
from pathlib import Path
from typing import Any

import pytest

from hermes.app.tools.availability import find_engine_problem
from hermes.app.tools.tooling import build_tooling
from hermes.settings.load import LoadedSettings, load

ALL = {"tools": {"toolsets": ["all"]}}


def loaded_from(home: Path, config: dict[str, Any], **variables: str) -> LoadedSettings:
    home.mkdir(exist_ok=True, mode=0o700)
    model = {"default": "ollama:llama3.3", **config.get("model", {})}
    (home / "config.yaml").write_text(json.dumps({**config, "model": model}))
    return load(home=home, variables={"PATH": "/nonexistent", "HOME": str(home)} | variables)


def absent_reason(loaded: LoadedSettings, tool: str) -> tuple[str, str]:
    """Empty when it is offered."""
    catalogue = build_tooling(loaded).catalogue
    if tool in catalogue.tools:
        return "", ""
    found = {each.tool: each for each in catalogue.absent}[tool]
    return found.why, found.how


def images(provider: str, **more: str) -> dict[str, Any]:
    return {"tools": {"images": {"provider": provider, **more}}}


MIXTURE = {"model": {"mixtures": {"all": {"references": ["sonnet", "gpt", "gemini"]}}}}
BLIND = {"model": {"vision": "flash"}}


@pytest.mark.parametrize(
    ("tool", "config", "variable"),
    [
        ("image_generate", images("openai"), "OPENAI_API_KEY"),
        ("image_generate", images("gemini"), "GEMINI_API_KEY"),
        ("image_generate", images("openai", key_variable="MINE_KEY"), "MINE_KEY"),
        ("vision_analyze", BLIND, "OPENROUTER_API_KEY"),
        ("mixture_of_agents", MIXTURE, "OPENROUTER_API_KEY"),
        ("web_search", {"tools": {"web": {"search": ["brave"]}}}, "BRAVE_API_KEY"),
        ("transcribe", ALL | {"speech": {"provider": "openai"}}, "OPENAI_API_KEY"),
        ("text_to_speech", ALL | {"speech": {"speaker": "openai"}}, "OPENAI_API_KEY"),
    ],
)
def test_a_tool_without_the_key_of_its_provider_is_absent(
    tmp_path: Path, tool: str, config: dict[str, Any], variable: str
) -> None:
    why, how = absent_reason(loaded_from(tmp_path / "home", config), tool)
    assert why == f"missing: the key {variable}"
    assert how == f"hermes config set {variable} <value>"
    assert absent_reason(loaded_from(tmp_path / "home", config, **{variable: "k"}), tool)[0] == ""


@pytest.mark.parametrize(
    ("tool", "config"),
    [
        ("image_generate", images("openai", key_variable="none", url="http://127.0.0.1:1/v1")),
        ("web_search", {"tools": {"web": {"search": ["duckduckgo", "nosuch"]}}}),
        ("transcribe", ALL | {"speech": {"provider": "openai", "url": "http://127.0.0.1:1"}}),
    ],
)
def test_a_provider_that_needs_no_key_is_enough(
    tmp_path: Path, tool: str, config: dict[str, Any]
) -> None:
    assert absent_reason(loaded_from(tmp_path / "home", config), tool) == ("", "")


@pytest.mark.parametrize(
    ("tool", "config", "reason"),
    [
        (
            "web_search",
            {"tools": {"web": {"search": ["nosuch"]}}},
            "tools.web.search: no search named 'nosuch'",
        ),
        (
            "transcribe",
            ALL | {"speech": {"provider": "nosuch"}},
            "speech.provider: no speech named 'nosuch'",
        ),
        (
            "text_to_speech",
            ALL | {"speech": {"speaker": "nosuch"}},
            "speech.speaker: no speech named 'nosuch'",
        ),
        (
            "text_to_speech",
            ALL | {"speech": {"speaker": "flite"}},
            "missing: the program flite",
        ),
        (
            "transcribe",
            ALL | {"speech": {"provider": "command"}},
            "missing: the setting speech.command",
        ),
    ],
)
def test_an_engine_that_is_not_there_is_named(
    tmp_path: Path, tool: str, config: dict[str, Any], reason: str
) -> None:
    why, how = absent_reason(loaded_from(tmp_path / "home", config), tool)
    assert why == reason
    assert "there are: " in how or "install flite" in how or "hermes config set" in how


def test_a_plug_in_of_the_home_is_an_engine(tmp_path: Path) -> None:
    config = {"tools": {"web": {"search": ["wiki"]}}}
    loaded = loaded_from(tmp_path / "home", config)
    assert find_engine_problem("tools.web.search", "wiki", loaded.home).startswith("no search")
    folder = loaded.home / "plugins"
    folder.mkdir(mode=0o700)
    (folder / "wiki.py").write_text('ENTRY_POINTS = {"hermes.search": {"wiki": print}}\n')
    (folder / "wiki.py").chmod(0o600)
    assert find_engine_problem("tools.web.search", "wiki", loaded.home) == ""
    assert absent_reason(loaded, "web_search") == ("", "")
