"""Opens the house for a person at a terminal, and sits down to chat."""

from typing import Any

from hermes import __version__
from hermes.agent.prompt import PERSONALITIES
from hermes.agent.unattended import open_runs
from hermes.cli import exits
from hermes.cli.carry_on import carry_on_in_background
from hermes.cli.interactive.seat import take_seat
from hermes.cli.interactive.shapes import Facts
from hermes.cli.interactive.sitting import Sitting
from hermes.cli.tools import ABOVE
from hermes.models.catalogue import references
from hermes.settings.load import Loaded


async def converse(loaded: Loaded, run: str | None, options: dict[str, Any]) -> int:
    """`run` is a conversation to go on with, empty for the latest; None begins a new one."""
    from hermes.app import open_house
    from hermes.app.model_reach import ModelReach

    settings = loaded.settings
    sitting = Sitting(*take_seat(settings.display, loaded.home))
    async with open_house(
        loaded,
        approver=sitting.approver,
        ask=sitting.approver.ask,
        origin="cli",
        **options,
    ) as house:
        means = house.means
        place = means.environment
        facts = Facts(
            version=__version__,
            model=means.model.name,
            directory=house.directory,
            place=f"{place.name} ({place.target})" if place.target else place.name,
            tools=(
                *((spec.name, spec.description) for spec in means.executor.specs),
                *((name, about) for name, (_, about) in ABOVE.items() if means.settings.max_depth),
            ),
            models=tuple(references()),
            personalities={**PERSONALITIES, **settings.agent.personalities},
        )
        others = carry_on_in_background(loaded, await open_runs(house.journal))
        warnings = [*house.warnings, *others]
        await sitting.chat(
            house,
            facts,
            resume=run,
            model=options.get("model", ""),
            warnings=warnings,
            reach=lambda name: ModelReach(loaded, name),
        )
    return exits.OK
