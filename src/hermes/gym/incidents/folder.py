"""The folder of a drill that was made from an incident; it loads like any other scenario."""

import shutil
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hermes.core.errors import SettingsError
from hermes.gym.incidents.build import IncidentDrill
from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import SCENARIO_FILE, TEXTS_FILE, Scenario, texts
from hermes.gym.scenario_spec import ScenarioSpec
from hermes.plumbing.yaml_document import dump_yaml

DRILL_FILE, ABOUT_FILE = "drill.json", "ABOUT.md"
_SCENARIO_TEXT = '''"""Made from an incident by `hermes drill from-incident`; see ABOUT.md."""

from hermes.gym.incidents.folder import load_incident_scenario

SCENARIO = load_incident_scenario(__file__)
'''
_WORDINGS = (
    "{title}",
    "Alert: {title}",
    "[FIRING] {title}",
    "monitoring: {title}",
    "on-call page: {title}",
    "{title} (still failing)",
    "reported again: {title}",
    "{title}: please look",
)
"""Eight: a draw for training and one for evaluation differ."""


def write_incident_drill(drill: IncidentDrill, folder: Path, incident: str) -> None:
    """Replaces a drill of the same name. Raises `SettingsError` for any other folder."""
    if folder.exists() and not (folder / DRILL_FILE).is_file():
        raise SettingsError(f"{folder} exists and is no drill of an incident; name another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    (folder / SCENARIO_FILE).write_text(_SCENARIO_TEXT, encoding="utf-8")
    title = drill.spec.alert.title.replace("{", "(").replace("}", ")")
    alerts = [each.format(title=title) for each in _WORDINGS]
    (folder / TEXTS_FILE).write_text(dump_yaml({"alerts": alerts}), encoding="utf-8")
    (folder / DRILL_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(drill), indent=1))
    (folder / ABOUT_FILE).write_text(_about(drill, incident), encoding="utf-8")


def load_incident_scenario(module_file: str) -> Scenario:
    """The value of `SCENARIO`; `module_file` is `__file__`. Raises `SettingsError`."""
    folder, wordings = Path(module_file).resolve().parent, texts(module_file)
    try:
        drill = msgspec.json.decode((folder / DRILL_FILE).read_bytes(), type=IncidentDrill)
    except (OSError, msgspec.DecodeError) as error:
        raise SettingsError(f"{folder / DRILL_FILE} cannot be read: {error}") from error

    def draw(rng: RandomSource) -> ScenarioSpec:
        title = rng.wording(wordings["alerts"])
        return replace(drill.spec, alert=replace(drill.spec.alert, title=title))

    return Scenario(
        name=folder.name,
        group="change",
        summary=f"an incident of {drill.spec.hosts[0].name}: {drill.spec.alert.title}"[:200],
        draw=draw,
        needs=drill.needs,
    )


def _about(drill: IncidentDrill, incident: str) -> str:
    lines = [
        f"# {drill.spec.alert.title}",
        "",
        f"Made from the incident {incident}. The host is rebuilt from its known good state.",
        "",
        "Left out or made up:",
        "",
        *(f"- {each}" for each in drill.left_out or ("nothing",)),
    ]
    return "\n".join([*lines, ""])
