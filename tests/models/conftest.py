from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from strict_server import KEY, StrictServer, strict_server

from hermes.core.protocols import Model
from hermes.models.open import ModelConnections, open_model
from hermes.models.settings import ModelSettings, ProviderSettings

Opener = Callable[..., Any]


@pytest.fixture
async def server(anyio_backend: str) -> AsyncIterator[StrictServer]:
    async with strict_server() as strict:
        yield strict
        assert not strict.complaints


@pytest.fixture
async def opened(server: StrictServer) -> AsyncIterator[Opener]:
    """Opens models of that server: `lab` speaks OpenAI's dialect, `anthropic` its own."""
    async with ModelConnections() as connections:

        def open_lab(reference: str = "lab:m", **changes: Any) -> Model:
            settings = ModelSettings(
                default="lab:m",
                providers={
                    "lab": ProviderSettings(base_url=server.url, key_variable="LAB_KEY"),
                    "openrouter": ProviderSettings(base_url=server.url),
                    "openai": ProviderSettings(base_url=server.url),
                    "anthropic": ProviderSettings(base_url=server.url),
                },
                timeout=5.0,
                first_token_timeout=5.0,
            )
            names = ("LAB_KEY", "OPENROUTER_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
            settings = msgspec.structs.replace(settings, **changes)
            return open_model(reference, settings, dict.fromkeys(names, KEY), connections)

        yield open_lab
