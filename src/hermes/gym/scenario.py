"""Loads scenarios. Each is a folder with `scenario.py` and `texts.yaml`."""

import hashlib
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from hermes.core.errors import HermesError, PluginError, SettingsError
from hermes.core.messages import Value
from hermes.core.plugin_sources import import_file
from hermes.core.plugins import BUILT_IN, call_plugin, load_plugin, plugin_names
from hermes.gym.random_source import RandomSource, Split
from hermes.gym.scenario_spec import ScenarioGroup, ScenarioSpec
from hermes.plumbing.renamed import find_renamed, report_renamed
from hermes.plumbing.yaml_document import load_plain_yaml

SCENARIO_FILE, TEXTS_FILE = "scenario.py", "texts.yaml"
SEVERAL_USERS = "several users"


class Scenario(Value, kw_only=True, frozen=True):
    """The value of `SCENARIO` in `scenario.py`."""

    name: str
    """The name of its folder."""
    group: ScenarioGroup
    """For `hermes drill list --group`."""
    summary: str
    """What is broken, for the list of scenarios. The agent never sees it."""
    draw: Callable[[RandomSource], ScenarioSpec]
    """The same spec for the same seed."""
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


class ScenarioCatalog(Value, kw_only=True, frozen=True):
    folders: dict[str, Path]
    """Of all scenarios that are installed, by name."""
    problems: tuple[str, ...] = ()
    """What could not be listed, one line each."""


def scenario_catalog(folders: Sequence[str] = ()) -> ScenarioCatalog:
    """The built-in scenarios, those of plug-ins, and those in these folders.

    An entry point returns a folder that contains scenario folders. The first scenario of a name is
    kept, the built-in one before all others.
    """
    found: dict[str, Path] = {}
    origins: dict[str, str] = {}
    problems: list[str] = []
    names = sorted(plugin_names("scenarios"), key=lambda name: name not in BUILT_IN["scenarios"])
    sources: list[tuple[str, Callable[[], Path]]] = [
        (f"plug-in {name}", partial(_plugin_folder, name)) for name in names
    ]
    sources += [(f"gym.scenarios: {each}", Path(each).expanduser) for each in folders]
    for origin, locate in sources:
        try:
            paths = list(_scenario_folders(locate()))
        except (HermesError, OSError) as error:
            problems.append(f"{origin}: {' '.join(str(error).split())}")
            continue
        for path in paths:
            taken = origins.setdefault(path.name, origin)
            if taken == origin:
                found[path.name] = path
            else:
                problems.append(f"{origin}: the name {path.name} is taken by {taken}; left out")
    return ScenarioCatalog(folders=dict(sorted(found.items())), problems=tuple(problems))


def _plugin_folder(name: str) -> Path:
    """Raises `PluginError` for any error in the author's code."""
    root = call_plugin(name, load_plugin("scenarios", name))
    if not isinstance(root, str | Path):
        raise PluginError(f"it must return a folder, not {type(root).__name__}")
    return Path(root)


def installed_scenarios(folders: Sequence[str] = ()) -> dict[str, Path]:
    """Names and folders; `folders` are those of `gym.scenarios`."""
    return scenario_catalog(folders).folders


def find_scenario(name: str, folders: Sequence[str] = ()) -> Scenario:
    """By name, or by the path of its folder."""
    if "/" in name or Path(name).is_dir():
        return load_scenario(Path(name))
    catalog = scenario_catalog(folders)
    if name not in catalog.folders:
        near = ", ".join(each for each in catalog.folders if name.split("-")[0] in each)
        hint = f"; near: {near}" if near else ""
        problems = "".join(f"\n{each}" for each in catalog.problems)
        raise SettingsError(
            f"there is no scenario {name!r}{hint}; see: hermes drill list{problems}"
        )
    return load_scenario(catalog.folders[name])


def scenario_reference(name: str, folders: Sequence[str] = ()) -> str:
    """Return what finds this scenario without settings: its name, or the path of its folder."""
    if "/" in name or name in installed_scenarios():
        return name
    return str(installed_scenarios(folders).get(name, name))


def shared_module(module_file: str, name: str) -> ModuleType:
    """The module `name` beside a scenario's folder, for code that several scenarios share.

    Called by a scenario with its `__file__`: `checks = shared_module(__file__, "checks")`. It is
    loaded once. Raises `SettingsError`.
    """
    path = Path(module_file).resolve().parent.parent / f"{name}.py"
    unique = f"hermes_shared_{name}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if unique in sys.modules:
        return sys.modules[unique]
    if not path.is_file():
        raise SettingsError(f"there is no module {path}")
    try:
        return import_file(unique, path)
    except PluginError as error:
        del sys.modules[unique]
        raise SettingsError(f"{path}: {error}") from error


def _scenario_folders(root: Path) -> Iterator[Path]:
    return (each for each in sorted(root.iterdir()) if (each / SCENARIO_FILE).is_file())


_NEW_NAMES = {"find": "find_scenario", "known": "installed_scenarios", "PATH": "PROGRAM_PATH"}


def __getattr__(name: str) -> Any:
    """The earlier names, for tests of other authors' scenarios."""
    return find_renamed(__name__, __name__, _NEW_NAMES, name)
