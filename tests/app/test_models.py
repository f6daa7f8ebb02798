"""A model is tested before a conversation switches to it."""

from pathlib import Path

import pytest

from hermes.app.models import ApplicationModels, refuse_own_address
from hermes.core.bus import Bus
from hermes.core.errors import HermesError, ProviderUnreachable, SettingsError
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.models.catalog import model_references
from hermes.models.open import ModelConnections
from hermes.settings.load import load

pytestmark = pytest.mark.anyio

UNUSED_PORT = "http://127.0.0.1:9/v1"


async def checked(home: Path, reference: str, overrides: dict[str, str], **secrets: str) -> str:
    loaded = load(home=home, variables=secrets, overrides=overrides)
    async with ModelConnections() as connections:
        models = ApplicationModels(loaded, connections, Bus(InMemoryJournal()))
        return (await models.open_checked(reference)).name


async def test_a_model_without_its_key_is_refused_by_the_name_of_the_variable(
    tmp_path: Path,
) -> None:
    with pytest.raises(SettingsError, match="OPENAI_API_KEY, which is not set"):
        await checked(tmp_path, "openai:gpt-9", {})


async def test_a_word_that_names_no_local_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no local model 'nosuch'"):
        await checked(tmp_path, "nosuch", {"model.default": "local:"})


async def test_a_model_outside_the_catalogue_must_answer(tmp_path: Path) -> None:
    overrides = {"model.providers.openai.base_url": UNUSED_PORT}
    with pytest.raises(ProviderUnreachable, match="cannot reach"):
        await checked(tmp_path, "openai:nosuch", overrides, OPENAI_API_KEY="k")


async def test_a_model_of_the_catalogue_with_its_key_is_taken(tmp_path: Path) -> None:
    name = next(each for each in model_references() if each.startswith("anthropic:"))
    assert await checked(tmp_path, name, {}, ANTHROPIC_API_KEY="k") == name


async def test_an_unknown_provider_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(HermesError, match=r"There are: .*anthropic"):
        await checked(tmp_path, "moon:m", {})


OWN = {"model.providers.mine.base_url": "http://127.0.0.1:8080/v1"}


@pytest.mark.parametrize(
    "overrides",
    [
        {"model.default": "mine:m"},
        {"model.default": "openai:gpt-5", "model.fallbacks": '["mine:m"]'},
        {"model.default": "openai:gpt-5", "model.summary": "mine:m"},
        {"model.default": "mine:m", "web.listen": "0.0.0.0"},
        {"model.default": "mine:m", "web.listen": "::1"},
    ],
)
async def test_a_model_at_the_address_of_hermes_itself_is_refused(
    tmp_path: Path, overrides: dict[str, str]
) -> None:
    loaded = load(home=tmp_path, variables={}, overrides={**OWN, **overrides})
    with pytest.raises(SettingsError, match="where Hermes itself listens"):
        refuse_own_address(loaded)


@pytest.mark.parametrize(
    "overrides",
    [
        {"web.port": "8644"},
        {"web.listen": "10.0.0.5"},
        {"model.providers.mine.base_url": "http://10.0.0.9:8080/v1"},
        {"model.providers.mine.base_url": "http://127.0.0.1/v1"},
    ],
)
async def test_a_model_elsewhere_is_not_ours(tmp_path: Path, overrides: dict[str, str]) -> None:
    chosen = {**OWN, "model.default": "mine:m", **overrides}
    refuse_own_address(load(home=tmp_path, variables={}, overrides=chosen))


async def test_the_port_is_8080_unless_another_is_configured(tmp_path: Path) -> None:
    assert load(home=tmp_path, variables={}).settings.web.port == 8080
    (tmp_path / "config.yaml").write_text("web: {port: 8644}\n")
    assert load(home=tmp_path, variables={}).settings.web.port == 8644
