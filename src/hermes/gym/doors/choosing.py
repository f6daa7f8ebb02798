"""Which scenarios a trainer gets: those it names, or all that can be played here."""

from concurrent.futures import ThreadPoolExecutor

from hermes.core.errors import SettingsError
from hermes.gym.readiness import listed, readiness
from hermes.gym.scenario import Scenario, find


def chosen(names: str, *, light: bool) -> list[Scenario]:
    """`names` with commas. Raises `SettingsError` where no box can be made."""
    if names:
        return [find(name.strip()) for name in names.split(",")]
    # It looks in a loop of its own, and a trainer asks from within one.
    with ThreadPoolExecutor(max_workers=1) as aside:
        here = aside.submit(readiness).result()
    if not here.boxes:
        raise SettingsError(f"no box can be made here: {'; '.join(here.missing)}")
    return [
        find(each.name)
        for each in listed(here=here)
        if not (each.broken or each.missing) and (each.light or not light)
    ]
