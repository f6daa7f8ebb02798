"""The policy of a house, opened when it is first asked; at once when there are files to be wrong.

Reading the rules and the parser costs more than the rest of a start, and a question that calls
no tool never asks the gate. But a broken policy file must stop the start, not the first deed.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hermes.core.actions import Action, Decision
from hermes.policy.settings import PolicySettings
from hermes.settings.load import Loaded

if TYPE_CHECKING:
    from hermes.policy.decide import DocumentPolicy
    from hermes.policy.redaction import Redactor


class Gate:
    """Fulfils `Policy` and `NotesDeeds`."""

    def __init__(self, loaded: Loaded, folder: Path, *, isolated: bool) -> None:
        self._loaded = loaded
        self._folder = folder
        self._isolated = isolated
        self._policy: DocumentPolicy | None = None
        if any(path.is_dir() for path in self._folders()):
            self._open()

    def decide(self, action: Action) -> Decision:
        return self._open().decide(action)

    def started(self, action: Action) -> None:
        self._open().started(action)

    def _folders(self) -> tuple[Path, Path]:
        own = self._loaded.settings.policy.folder
        return (
            Path(own).expanduser() if own else self._loaded.home / "policies",
            self._folder / ".hermes" / "policies",
        )

    def _open(self) -> "DocumentPolicy":
        if self._policy is None:
            self._policy = open_policy(self._loaded, self._folder, isolated=self._isolated)
        return self._policy


class Veil:
    """Takes secrets out of texts: the values of our own `.env`, and what looks like a secret."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._redactor: Redactor | None = None

    def __call__(self, text: str) -> str:
        if self._redactor is None:
            from hermes.policy.redaction import Redactor

            secrets = self._loaded.secrets
            own = {name: secrets[name] for name in secrets.kept if name in secrets}
            self._redactor = Redactor({**secrets.sensitive(), **own})
        return self._redactor.clean(text)


def open_policy(loaded: Loaded, folder: Path, *, isolated: bool) -> "DocumentPolicy":
    """Raises `SettingsError` naming every mistake in the policy files with file and line."""
    from hermes.policy.action import Reader, Situation
    from hermes.policy.commands import analyse
    from hermes.policy.decide import DocumentPolicy
    from hermes.policy.local_files import digest, follow
    from hermes.policy.opening import clock_in, open_book, own_paths

    settings = effective(loaded, isolated=isolated)
    home = loaded.secrets.get("HOME") or str(Path.home())
    book, _ = open_book(settings, loaded.home, folder, home)
    own = own_paths(loaded.home, folder, [loaded.journal])
    if isolated:  # its files are not ours to look at
        reader = Reader(analyse, own_paths=own)
    else:
        reader = Reader(analyse, own_paths=own, lookup=follow, digest=digest)

    def situate(action: Action) -> Situation:
        here = action.cwd or str(folder)
        return Situation(cwd=here, home=home, workspace=str(folder), command=action.command)

    return DocumentPolicy(book, reader, situate=situate, clock=clock_in(settings.timezone))


def effective(loaded: Loaded, *, isolated: bool) -> PolicySettings:
    """Isolated places get the kinder set, unless the operator chose one."""
    settings = loaded.settings.policy
    if isolated and loaded.origin("policy.set").source == "default":
        settings = replace(settings, set="sandboxed")
    return replace(settings, announce=0.0)  # nobody hears an announcement yet: it is asked
