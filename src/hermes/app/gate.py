"""The policy of a house, opened when it is first asked; at once when there are files to be wrong.

Reading the rules and the parser costs more than the rest of a start, and a question that calls
no tool never asks the gate. But a broken policy file must stop the start, not the first deed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hermes.app.standing_leave import AlwaysFile
from hermes.core.actions import Action, Decision, KernelSupport
from hermes.core.messages import ToolCall
from hermes.policy.deed import IncidentFacts
from hermes.policy.settings import PolicySettings
from hermes.settings.load import Loaded

if TYPE_CHECKING:
    from hermes.policy.decide import DocumentPolicy


class Gate:
    """Fulfils `Policy`, `NotesDeeds` and `HearsText`."""

    def __init__(self, loaded: Loaded, folder: Path, *, isolated: bool) -> None:
        self._loaded = loaded
        self._folder = folder
        self._isolated = isolated
        self._policy: DocumentPolicy | None = None
        self._incidents: dict[str, IncidentFacts] = {}
        self._always = AlwaysFile(always_file(loaded))
        if any(path.is_dir() for path in self._folders()):
            self._open()

    def decide(self, action: Action) -> Decision:
        policy = self._open()
        deed = policy.read(action)
        verdict = policy.judge(deed)
        if self._always.matters(verdict) and self._always.changed():
            policy.book = self._always.renewed(policy.book, home_of(self._loaded))
            verdict = policy.judge(deed)
        return verdict

    def heard(self, run: str, text: str, trusted: bool, call: ToolCall | None = None) -> None:
        self._open().heard(run, text, trusted, call)

    def started(self, action: Action) -> None:
        self._open().started(action)

    def recalled(self, action: Action) -> None:
        self._open().recalled(action)

    def concerns(self, run: str, incident: str, severity: str, service: str) -> None:
        """What this run is about, for rules that ask for it."""
        facts = IncidentFacts(id=incident, severity=severity, service=service)
        self._incidents[run] = facts

    def _folders(self) -> tuple[Path, Path]:
        return always_file(self._loaded).parent, self._folder / ".hermes" / "policies"

    def _open(self) -> "DocumentPolicy":
        if self._policy is None:
            self._policy = open_policy(
                self._loaded, self._folder, isolated=self._isolated, incidents=self._incidents
            )
        return self._policy


def open_policy(
    loaded: Loaded,
    folder: Path,
    *,
    isolated: bool,
    incidents: Mapping[str, IncidentFacts] | None = None,
) -> "DocumentPolicy":
    """Raises `SettingsError` naming every mistake in the policy files with file and line."""
    from hermes.environments.sandbox_records import SandboxRecords
    from hermes.policy.action import Reader, Situation
    from hermes.policy.commands import analyse
    from hermes.policy.decide import DocumentPolicy
    from hermes.policy.local_files import digest, follow
    from hermes.policy.opening import clock_in, open_book, own_paths
    from hermes.policy.written_files import FILE_NAME, WrittenFiles

    settings = effective(loaded, isolated=isolated)
    home = home_of(loaded)
    book, _ = open_book(settings, loaded.home, folder, home)
    own = own_paths(loaded.home, folder, [loaded.journal])
    if isolated:  # its files are not ours to look at
        reader = Reader(analyse, own_paths=own)
    else:
        reader = Reader(
            analyse,
            own_paths=own,
            lookup=follow,
            digest=digest,
            written=WrittenFiles(loaded.home / FILE_NAME),
            sandboxes=SandboxRecords(loaded.home),
        )

    def situate(action: Action) -> Situation:
        here = action.cwd or str(folder)
        run = action.run.partition("/")[0].partition("#")[0]
        return Situation(
            cwd=here,
            home=home,
            workspace=str(folder),
            command=action.command,
            incident=(incidents or {}).get(run, IncidentFacts()),
        )

    return DocumentPolicy(book, reader, situate=situate, clock=clock_in(settings.timezone))


def kernel_here(loaded: Loaded, place: str = "") -> KernelSupport:
    """What the kernel would enforce in the place that the settings, or `place`, name."""
    kind = place or loaded.settings.terminal.backend
    if kind in ("ssh", "docker"):
        return KernelSupport(
            reason=f"whether the far side of {kind} can confine commands (python3 and Landlock are "
            "needed there) is only known once Hermes has connected"
        )
    if kind != "local":
        return KernelSupport(reason=f"commands in {kind} are not confined by the kernel")
    from hermes.environments.confinement.probe import kernel_support

    return kernel_support()


def effective(loaded: Loaded, *, isolated: bool) -> PolicySettings:
    """Isolated places get the kinder set, unless the operator chose one."""
    settings = loaded.settings.policy
    if isolated and loaded.origin("policy.set").source == "default":
        settings = replace(settings, set="sandboxed")
    return settings


def always_file(loaded: Loaded) -> Path:
    """Where the answers "always" are kept, among the operator's own rules."""
    own = loaded.settings.policy.folder
    return (Path(own).expanduser() if own else loaded.home / "policies") / "always.yaml"


def home_of(loaded: Loaded) -> str:
    return loaded.secrets.get("HOME") or str(Path.home())
