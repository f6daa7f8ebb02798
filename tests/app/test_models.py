"""A model is tested before a conversation switches to it."""

from pathlib import Path

import pytest

from hermes.app.models import ApplicationModels
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
