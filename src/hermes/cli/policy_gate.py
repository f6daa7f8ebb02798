"""Opens the gate for `hermes policy`: the one that judges here, or one put together to try out."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from hermes.app.gate import effective, kernel_here, open_policy
from hermes.core.actions import Action
from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.policy.action import Reader, Situation
from hermes.policy.commands import analyse
from hermes.policy.decide import DocumentPolicy
from hermes.policy.documents import Loaded as Documents
from hermes.policy.documents import Placed, check_together, load_file, load_folder
from hermes.policy.examine import check
from hermes.policy.opening import SETS, clock_in, compile_book, gather, own_paths, tell
from hermes.policy.rates import Rates
from hermes.policy.schema import PolicyTest
from hermes.policy.settings import PolicySettings
from hermes.settings.load import Loaded

TEST_HOME, TEST_FOLDER = Path("/home/me"), Path("/srv/app")
"""Where the cases of a PolicyTest happen, whatever machine they are run on."""


class Gates:
    """The gate as the agent meets it when it is started in a folder."""

    def __init__(self, loaded: Loaded, folder: Path) -> None:
        self.folder = folder
        self.home = home_of(loaded)
        self.of = cache(lambda isolated: open_policy(loaded, folder, isolated=isolated))
        self.kernel = cache(lambda place: kernel_here(loaded, place))

    def check(self, given: dict[str, Any]) -> dict[str, Any]:
        """Raises `SettingsError` for what is no action."""
        gate = self.of(given.get("isolated") is True)
        kernel = self.kernel(str(given.get("environment", "")))
        return check(gate, self.placed(given), cwd=str(self.folder), home=self.home, kernel=kernel)

    def placed(self, given: dict[str, Any]) -> dict[str, Any]:
        """A folder that is not absolute is meant from here."""
        cwd = given.get("cwd")
        if not isinstance(cwd, str) or not cwd or cwd.startswith("/"):
            return given
        if cwd == "~" or cwd.startswith("~/"):
            return {**given, "cwd": self.home + cwd[1:]}
        return {**given, "cwd": str(self.folder / cwd)}


def home_of(loaded: Loaded) -> str:
    return loaded.secrets.get("HOME") or str(Path.home())


def folder_of(cwd: str) -> Path:
    """The folder the work would be about."""
    try:
        return Path(cwd).expanduser().absolute()
    except (FileNotFoundError, RuntimeError) as error:  # it was removed under our feet; no HOME
        raise SettingsError(f"cannot tell which folder {cwd or '.'} is: {error}") from error


def own_folder(loaded: Loaded) -> Path:
    own = loaded.settings.policy.folder
    return Path(own).expanduser() if own else loaded.home / "policies"


def in_force(loaded: Loaded, folder: Path, *, isolated: bool = False) -> Documents:
    """Every document that counts. Raises `SettingsError` when one of them is broken."""
    return sound(gather(effective(loaded, isolated=isolated), loaded.home, folder))


def sound(found: Documents) -> Documents:
    if fatal := [problem for problem in found.problems if problem.fatal]:
        raise SettingsError(tell(fatal))
    return found


def load_paths(paths: Iterable[Path]) -> Documents:
    found = Documents()
    for path in paths:
        found += load_folder(path) if path.is_dir() else load_file(path)
    return found


def put_on_top(present: Sequence[Placed], tried: Documents) -> tuple[Placed, ...]:
    """Documents to try out, in place of own ones with the same name; the built-in ones stay."""
    sound(tried)
    names = {name_of(placed) for placed in tried.documents}
    kept = [each for each in present if built_in(each.source) or name_of(each) not in names]
    together = (*kept, *tried.documents)
    sound(Documents(problems=tuple(check_together(together))))
    return together


def name_of(placed: Placed) -> tuple[str, str]:
    return placed.document.kind, placed.document.metadata.name


class Moment:
    """A clock that is set to when each recorded action happened."""

    def __init__(self, timezone: str) -> None:
        self.now = clock_in(timezone)()

    def set(self, at: datetime) -> None:
        self.now = at.astimezone(self.now.tzinfo)


class Then(Value, frozen=True):
    """What else is known of the time in which recorded actions happened."""

    folder: Path
    moment: Moment
    tainted: frozenset[tuple[str, str]] = frozenset()
    """Calls, by run and id, whose words came from text that nobody vouches for."""


def made_for_then(
    documents: Iterable[Placed], settings: PolicySettings, loaded: Loaded, then: Then
) -> DocumentPolicy:
    """A gate that looks at no file and no clock of today."""
    home, folder = home_of(loaded), str(then.folder)
    own = own_paths(loaded.home, then.folder, [loaded.journal])

    def situate(action: Action) -> Situation:
        tainted = (action.run, action.call.id) in then.tainted
        here = action.cwd or folder
        return Situation(cwd=here, home=home, command=action.command, tainted=tainted)

    return DocumentPolicy(
        compile_book(documents, settings, home),
        Reader(analyse, own_paths=own),
        situate=situate,
        clock=lambda: then.moment.now,
        rates=Rates(lambda: then.moment.now.timestamp()),
    )


def made_for_tests(documents: Iterable[Placed], settings: PolicySettings) -> DocumentPolicy:
    own = own_paths(TEST_HOME / ".hermes", TEST_FOLDER)
    rules = (placed for placed in documents if not isinstance(placed.document, PolicyTest))
    return DocumentPolicy(
        compile_book(rules, settings, str(TEST_HOME)),
        Reader(analyse, own_paths=own),
        clock=clock_in(settings.timezone),
    )


def built_in(source: str) -> bool:
    return source.startswith(f"{SETS}/")


def short(source: str) -> str:
    """For people: a built-in file by its name alone."""
    return f"built-in {source.removeprefix(f'{SETS}/')}" if built_in(source) else source
