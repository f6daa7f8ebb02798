"""Built-in tools keep the contract that plug-ins are tested with."""

import pytest

from hermes.core.plugins import BUILT_IN, load_plugin
from hermes.core.protocols import Tool
from hermes.testing import ToolContract
from hermes.tools.dependencies import ToolDependencies


class TestTools(ToolContract):
    @pytest.fixture(params=sorted(BUILT_IN["tools"]))
    def tool(self, request: pytest.FixtureRequest) -> Tool:
        found = load_plugin("tools", request.param)
        made: Tool = found if hasattr(found, "spec") else found(ToolDependencies())
        return made
