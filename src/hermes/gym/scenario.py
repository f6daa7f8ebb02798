"""Loads scenarios. Each is a folder with `scenario.py` and `texts.yaml`."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hermes.core.errors import PluginError, SettingsError
from hermes.core.messages import Value
from hermes.core.plugins import import_file, load_plugin, plugin_names
from hermes.gym.random_source import RandomSource, Split
from hermes.gym.renamed import find_renamed, report_renamed
from hermes.gym.scenario_spec import ScenarioGroup, ScenarioSpec
from hermes.plumbing.yaml_document import load_plain_yaml

SCENARIO_FILE, TEXTS_FILE = "scenario.py", "texts.yaml"
SEVERAL_USERS = "several users"


class Scenario(Value, kw_only=True, frozen=True):
    """The value of `SCENARIO` in `scenario.py`."""

    name: str
    group: ScenarioGroup
    summary: str
    """What is broken, for the list of scenarios. The agent never sees it."""
    draw: Callable[[RandomSource], ScenarioSpec]
    needs: tuple[str, ...] = ()
    """Programs besides bash, coreutils and python3 (a light scenario needs none), and
    `SEVERAL_USERS` where files or services belong to other users than root."""
    held_out: bool = False
    """Reserved for evaluation: not for training or tuning."""

    @property
    def light(self) -> bool:
        return not self.programs

    @property
    def programs(self) -> tuple[str, ...]:
        return tuple(name for name in self.needs if name != SEVERAL_USERS)

    def draw_spec(self, seed: int, split: Split = "train") -> ScenarioSpec:
        """Raises `SettingsError` when the scenario's own code fails."""
        try:
            return self.draw(RandomSource(seed, self.name, split))
        except SettingsError:
            raise
        except Exception as error:  # code of the scenario's author: any error is possible
            what = f"{type(error).__name__}: {error}"
            raise SettingsError(f"{self.name}: its code failed: {what}") from error

    def story(self, seed: int, split: Split = "train") -> ScenarioSpec:
        """The earlier name of `draw_spec`, for tests of other authors' scenarios."""
        report_renamed("Scenario.story", "Scenario.draw_spec")
        return self.draw_spec(seed, split)

    def missing_programs(self) -> tuple[str, ...]:
        """Programs that this machine lacks."""
        path = program_search_path()
        return tuple(name for name in self.programs if shutil.which(name, path=path) is None)


PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
POSTGRESQL_BIN_GLOB = "/usr/lib/postgresql/*/bin"
"""Where Debian installs PostgreSQL: not on the PATH."""


def program_search_path() -> str:
    """The PATH on which programs that scenarios need are found."""
    return ":".join((PROGRAM_PATH, *map(str, Path("/").glob(POSTGRESQL_BIN_GLOB.lstrip("/")))))


def texts(module_file: str) -> dict[str, Any]:
    """The content of `texts.yaml`; called by a scenario with its `__file__`."""
    found: dict[str, Any] = load_plain_yaml((Path(module_file).parent / TEXTS_FILE).read_text())
    return found


def load_scenario(folder: Path) -> Scenario:
    """Raises `SettingsError` with the file and its error."""
    file = folder / SCENARIO_FILE
    if not file.is_file():
        raise SettingsError(f"{folder} is no scenario: there is no {SCENARIO_FILE} in it")
    name = f"hermes_scenario_{folder.resolve().name.replace('-', '_')}"
    try:
        module = import_file(name, file)
    except PluginError as error:
        raise SettingsError(f"{file}: {error}") from error
    found = getattr(module, "SCENARIO", None)
    if not isinstance(found, Scenario):
        raise SettingsError(f"{file} has no SCENARIO; see `hermes drill show` for an example")
    if found.name != folder.resolve().name:
        raise SettingsError(f"{file}: it is called {found.name!r}, its folder {folder.name!r}")
    return found


def installed_scenarios() -> dict[str, Path]:
    """Names and folders. An entry point returns a folder that contains scenario folders."""
    roots = [load_plugin("scenarios", name)() for name in plugin_names("scenarios")]
    found = {each.name: each for root in roots for each in _scenario_folders(root)}
    return dict(sorted(found.items()))


def find_scenario(name: str) -> Scenario:
    """By name, or by the path of its folder."""
    if "/" in name or Path(name).is_dir():
        return load_scenario(Path(name))
    folders = installed_scenarios()
    if name not in folders:
        near = ", ".join(each for each in folders if name.split("-")[0] in each)
        hint = f"; near: {near}" if near else ""
        raise SettingsError(f"there is no scenario {name!r}{hint}; see: hermes drill list")
    return load_scenario(folders[name])


def _scenario_folders(root: Path) -> Iterator[Path]:
    return (each for each in sorted(root.iterdir()) if (each / SCENARIO_FILE).is_file())


_NEW_NAMES = {"find": "find_scenario", "known": "installed_scenarios", "PATH": "PROGRAM_PATH"}


def __getattr__(name: str) -> Any:
    """The earlier names, for tests of other authors' scenarios."""
    return find_renamed(__name__, __name__, _NEW_NAMES, name)
