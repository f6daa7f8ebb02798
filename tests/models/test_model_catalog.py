"""From what a person writes to who is asked, and at what price."""

import itertools

import pytest

from hermes.core.errors import SettingsError
from hermes.core.messages import Message, Risk, ToolCall, ToolResult, ToolSpec, Usage
from hermes.models.catalog import (
    model_catalog,
    model_references,
    reference_for_role,
    resolve_reference,
    usage_cost,
)
from hermes.models.message_format import estimate_tokens, text_tokens
from hermes.models.open import ModelConnections, open_model
from hermes.models.settings import ModelSettings, ProviderSettings

DEFAULTS = ModelSettings()


def test_the_catalogue_holds_together() -> None:
    known = model_catalog()
    assert known.default in known.providers
    for target in [*known.aliases.values(), DEFAULTS.default]:
        assert target in model_references()
    for provider in known.providers.values():
        assert provider.window > 0
        assert all(card.window > 0 for card in provider.models.values())
    assert len(model_references()) >= 25


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("openrouter:anthropic/claude-sonnet-4", "openrouter:anthropic/claude-sonnet-4"),
        ("anthropic/claude-sonnet-4", "openrouter:anthropic/claude-sonnet-4"),
        ("deepseek/deepseek-chat:free", "openrouter:deepseek/deepseek-chat:free"),
        ("sonnet", "openrouter:anthropic/claude-sonnet-5.5"),
        ("ollama:qwen3:8b", "ollama:qwen3:8b"),
        ("", DEFAULTS.default),
        ("local:", "local:"),
        ("scripted:/tmp/demo.jsonl", "scripted:/tmp/demo.jsonl"),
    ],
)
def test_references_in_all_their_forms(written: str, meant: str) -> None:
    assert resolve_reference(written, DEFAULTS).reference == meant


def test_a_bare_name_belongs_to_the_provider_of_the_default_model() -> None:
    settings = ModelSettings(default="ollama:qwen3")
    assert resolve_reference("llama3.3", settings).reference == "ollama:llama3.3"


@pytest.mark.parametrize(
    ("written", "nearest"),
    [
        ("opnrouter:x/y", "openrouter"),
        ("sonet", "sonnet"),
        ("claude-haiku-4.6", "openrouter:anthropic/claude-haiku-4.5"),
    ],
)
def test_a_typo_is_answered_with_the_nearest_name(written: str, nearest: str) -> None:
    with pytest.raises(SettingsError, match=f"did you mean '{nearest}'"):
        resolve_reference(written, DEFAULTS)


def test_an_unknown_model_gets_the_window_of_its_provider_and_no_price() -> None:
    target = resolve_reference("openrouter:some/new-model", DEFAULTS)
    assert target.window == model_catalog().providers["openrouter"].window
    assert usage_cost(target.reference, Usage(1000, 1000)) is None
    assert usage_cost("ollama:qwen3", Usage(1000, 1000)) is None
    assert usage_cost("openai:gpt-4.1", Usage(1_000_000, 1_000_000)) == pytest.approx(10)


def test_a_provider_of_ones_own_and_another_address_for_a_known_one() -> None:
    settings = ModelSettings(
        providers={
            "lab": ProviderSettings(base_url="http://lab:1/v1", window=9000, headers={"x": "y"}),
            "vllm": ProviderSettings(base_url="https://gpu/v1", key_variable="GPU_KEY"),
            "openrouter": ProviderSettings(key_variable="none"),
        }
    )
    lab = resolve_reference("lab:m", settings)
    assert (lab.window, lab.provider.dialect, lab.provider.headers) == (9000, "openai", {"x": "y"})
    assert resolve_reference("vllm:m", settings).provider.key_variable == "GPU_KEY"
    assert resolve_reference("openrouter:a/b", settings).provider.key_variable == ""


def test_an_address_that_is_none_is_refused_by_name() -> None:
    settings = ModelSettings(providers={"lab": ProviderSettings(base_url="lab:1/v1")})
    with pytest.raises(SettingsError, match=r"model\.providers\.lab\.base_url"):
        resolve_reference("lab:m", settings)


def test_roles_fall_back_to_the_default() -> None:
    settings = ModelSettings(default="sonnet", cheap="haiku")
    assert reference_for_role("cheap", settings) == "haiku"
    assert reference_for_role("strong", settings) == "sonnet"


def test_an_unknown_dialect_is_told_with_those_that_exist() -> None:
    settings = ModelSettings(
        providers={"lab": ProviderSettings(base_url="http://lab/v1", dialect="klingon")}
    )
    with pytest.raises(SettingsError, match="openai"):
        open_model("lab:m", settings, {}, ModelConnections())


def test_estimates_are_near_what_tokenizers_say() -> None:
    english = "The service restarted because the disk was full; see the log for details. " * 10
    assert 140 <= text_tokens(english) <= 220  # 150 by the usual encodings
    assert 18 <= text_tokens("数据库连接失败，请检查配置文件和网络。") <= 26
    assert 10 <= text_tokens("Служба не отвечает на запросы") <= 20


def test_an_estimate_counts_all_that_is_sent() -> None:
    plain = [Message(role="user", text="x" * 400)]
    calling = Message(role="assistant", calls=(ToolCall("a", "run", {"command": "y" * 320}),))
    answered = Message(role="tool", result=ToolResult(call_id="a", content="z" * 320))
    tool = ToolSpec(name="run", description="d" * 100, parameters={"a": "b"}, risk=Risk.READ)
    sizes = [
        estimate_tokens(plain),
        estimate_tokens([*plain, calling]),
        estimate_tokens([*plain, calling, answered]),
        estimate_tokens([*plain, calling, answered], [tool]),
    ]
    steps = [after - before for before, after in itertools.pairwise(sizes)]
    assert all(step > 20 for step in steps)
    assert estimate_tokens([]) == 0
