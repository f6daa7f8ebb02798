"""Built-in models keep the contract that plug-ins are tested with."""

from pathlib import Path
from typing import Any

import pytest
from strict_server import StrictServer, says

from hermes.core.protocols import Model
from hermes.models.open import ModelConnections, open_model
from hermes.models.settings import ModelSettings
from hermes.testing import ModelContract


class TestScripted(ModelContract):
    @pytest.fixture
    def model(self, tmp_path: Path) -> Model:
        (tmp_path / "script.jsonl").write_text('{"text": "I am ready."}\n')
        reference = f"scripted:{tmp_path}/script.jsonl"
        return open_model(reference, ModelSettings(), {}, ModelConnections())


class TestOpenAIDialect(ModelContract):
    @pytest.fixture
    async def model(self, server: StrictServer, opened: Any) -> Model:
        server.will(says("I am ready."))
        model: Model = opened()
        return model
