"""What the incidents of one watch share."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.app.application import open_application
from hermes.app.incidents.response import open_model_responder
from hermes.app.skills.playbook_cache import PlaybookCache
from hermes.app.watch import LazyIncidentHandler
from hermes.core.incident import IncidentDetails
from hermes.models.settings import ModelSettings
from hermes.settings.load import load
from hermes.sre.probes.inventory import InventoryStore
from hermes.sre.probes.scheduler import ProbeScheduler

pytestmark = pytest.mark.anyio


async def test_incidents_of_one_watch_share_claims_and_playbooks(tmp_path: Path) -> None:
    loaded = load(home=tmp_path, variables={"PATH": "/usr/bin:/bin"})
    async with open_application(loaded, origin="incident", directory=tmp_path) as application:
        environment = application.agent_dependencies.environment
        handler = LazyIncidentHandler(
            application,
            PlaybookCache(loaded, application.journal),
            InventoryStore(None, environment.target),
            ProbeScheduler((), environment, application.bus, home=tmp_path),
        )
        first, second = (handler.context(_incident(name)) for name in ("one", "two"))
        assert first.index is second.index
        assert first.claims is second.claims, "the second waits for the revert of the first"


@pytest.mark.parametrize(
    ("variables", "default", "asked"),
    [({}, "", False), ({"OPENROUTER_API_KEY": "sk-or-test"}, "", True), ({}, "openai:gpt-9", True)],
)
async def test_a_model_that_nobody_chose_and_that_has_no_key_is_not_asked(
    tmp_path: Path, variables: dict[str, str], default: str, asked: bool
) -> None:
    """One that a person chose says in each incident that its key is missing."""
    overrides = {"model.default": default} if default else {}
    loaded = load(
        home=tmp_path, variables={"PATH": "/usr/bin:/bin", **variables}, overrides=overrides
    )
    if not default:  # as without the extra `local`
        settings = replace(loaded.settings, model=ModelSettings())
        loaded = replace(loaded, origins={}, settings=settings)
    async with open_application(loaded, origin="incident", directory=tmp_path) as application:
        assert (open_model_responder(application) is not None) == asked


def _incident(name: str) -> IncidentDetails:
    return IncidentDetails(incident=name, run=name, title="web is down", service="web")
