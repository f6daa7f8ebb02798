"""Every environment of `conftest.PLACES` keeps the contract."""

import pytest

from hermes.core.protocols import Environment
from hermes.testing import EnvironmentContract


class TestEnvironments(EnvironmentContract):
    @pytest.fixture
    def environment(self, place: Environment) -> Environment:
        return place
