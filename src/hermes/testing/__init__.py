"""Suites that every environment, journal, channel, probe kind, model and tool must pass.

For authors of plug-ins: derive a class whose name begins with `Test`, define the fixtures that the
suite names, and run pytest. Nothing else in Hermes imports pytest.
"""

import pytest

pytest.register_assert_rewrite("hermes.testing.environments", "hermes.testing.journals")
pytest.register_assert_rewrite("hermes.testing.plugins", "hermes.testing.channels")

from hermes.testing.channels import (  # noqa: E402 - after the registration
    ChatChannelContract,
    SendingChannelContract,
)
from hermes.testing.environments import EnvironmentContract  # noqa: E402
from hermes.testing.journals import JournalContract  # noqa: E402
from hermes.testing.plugins import (  # noqa: E402
    ChannelContract,
    ModelContract,
    ProbeKindContract,
    ToolContract,
)

__all__ = [
    "ChannelContract",
    "ChatChannelContract",
    "EnvironmentContract",
    "JournalContract",
    "ModelContract",
    "ProbeKindContract",
    "SendingChannelContract",
    "ToolContract",
]
