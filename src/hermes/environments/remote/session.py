"""One shell session at the far end of a line, and how its commands are held to their verdicts.

Where the far side cannot confine commands, each shell leaves its state in a file of the session's
folder, and the next reads it there. Where it can, the state travels through descriptors and is kept
in two files: `free`, of the last command that ran unconfined, and `held`, of the last confined one.
No confined command can change them. What a confined command leaves may be forged, so an unconfined
command takes over only what `ShellState` finds harmless in it.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from hermes.core.actions import Blocked, Profile
from hermes.core.errors import PlaceFailed, ToolError
from hermes.environments.confined import QUIET
from hermes.environments.confinement.one_command import ELSEWHERE
from hermes.environments.remote.launcher import Launcher, install
from hermes.environments.remote.lines import Lines
from hermes.environments.remote.run import run_there
from hermes.environments.remote.scripts import (
    FOLLOWS,
    READ_STATES,
    STATE_IN,
    STATE_OUT,
    Start,
    keep_state,
)
from hermes.environments.remote.word import LastWord
from hermes.environments.shell import Launch, Shell, new_tree
from hermes.environments.shell_state import ShellState

START_TIMEOUT_S = 60.0
UNINSTALLED = "uninstalled"
"""The last word of a command that found no launcher: its container was replaced."""


class RemoteConfinement:
    """The commands of one verdict, and what the kernel refused them."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.refusals: list[Blocked] = []

    @property
    def judged(self) -> str:
        return self.profile.judged

    def blocked(self) -> list[Blocked]:
        """What was refused since the last call."""
        found = list(self.refusals)
        self.refusals.clear()
        return found


@dataclass
class Turn:
    """One command of the session: what is sent, and what came back."""

    body: str
    words: Mapping[str, str | int] = field(default_factory=dict)
    last: LastWord = field(default_factory=lambda: LastWord(None))


class RemoteSession:
    def __init__(self, lines: Lines, shell: Shell, variables: Mapping[str, str]) -> None:
        self.shell, self.folder = shell, ""
        self._lines, self._variables = lines, variables
        self._launcher: Launcher | None = None
        self._installing = anyio.Lock()
        self._latest = "free"
        """Which of the two states is the newer one."""

    async def launcher(self) -> Launcher:
        """Sent when first asked for. Raises `PlaceFailed` when the place cannot be reached."""
        async with self._installing:
            if self._launcher is None:
                made = await install(self._lines, self.shell.folder)
                if not made.support.reason:
                    await self._begin_to_keep_states()
                self._launcher = made
            return self._launcher

    async def _begin_to_keep_states(self) -> None:
        """The state so far, or that of a new session, becomes the first that is kept."""
        before = await self._run_nothing(Turn(f"{self._start_here(':').inner} 2>&1\nword=$?"))
        if before.code != 0:
            raise PlaceFailed(f"no shell can be started in {self._lines.client.place}")
        of = self._start_kept(":", source="state", given="")
        await self._run_nothing(Turn(keep_state(of), {**of.words, "into": "free"}))
        await self._lines.ask('rm -f -- "$home/state"', {"home": self.shell.folder})
        self._latest = "free"

    async def _run_nothing(self, turn: Turn) -> LastWord:
        _, last = await run_there(
            self._lines, turn.body, turn.words, tree="none", timeout=START_TIMEOUT_S, stdin=b""
        )
        self.folder = last.folder or self.folder
        return last

    @asynccontextmanager
    async def turn(
        self, command: str, *, tree: str, cwd: str, confinement: RemoteConfinement | None
    ) -> AsyncIterator[Turn]:
        """The caller runs what is in the turn and puts the last word there.

        Raises `ToolError` or `PlaceFailed` for a command that could not be confined.
        """
        if not await self._keeps_states(confinement):
            yield Turn(f"{self._start_here(command, tree=tree, cwd=cwd).inner} 2>&1\nword=$?")
            return
        report = f"{self.shell.folder}/report.{tree}"
        of = await self._kept(command, tree=tree, cwd=cwd, report=report, confinement=confinement)
        into = "free" if confinement is None else "held"
        turn = Turn(keep_state(of), {**of.words, "into": into})
        yield turn
        self._heard(turn.last, into, confinement)

    def _heard(self, last: LastWord, into: str, confinement: RemoteConfinement | None) -> None:
        if last.text == UNINSTALLED:
            self._launcher, self.folder = None, ""
            raise PlaceFailed(
                "not run: the place was replaced, and files and shell state that were in it are "
                "gone. The next command starts anew"
            )
        if last.not_run is not None:
            kind, reason = last.not_run
            raise ToolError(reason) if kind == ELSEWHERE else PlaceFailed(reason)
        if confinement is not None:
            confinement.refusals += last.blocked
        if last.folder:
            self._latest, self.folder = into, last.folder

    async def background(
        self,
        command: str,
        *,
        tree: str,
        cwd: str,
        tty: str,
        report: str,
        confinement: RemoteConfinement | None,
    ) -> Start:
        """How to start a process that leaves the state of the session alone."""
        if not await self._keeps_states(confinement):
            return self._start_here(command, tree=tree, cwd=cwd, exit_file="/dev/null", tty=tty)
        return await self._kept(
            command, tree=tree, cwd=cwd, tty=tty, report=report, confinement=confinement,
            exit_file="/dev/null",
        )  # fmt: skip

    async def _keeps_states(self, confinement: RemoteConfinement | None) -> bool:
        """Whether the launcher is there. Raises `PlaceFailed` for a command that needs it."""
        if confinement is None:
            return self._launcher is not None and not self._launcher.support.reason
        if reason := (await self.launcher()).support.reason:
            raise PlaceFailed(f"not run: the command could not be confined ({reason})")
        return True

    async def check_write(self, confinement: RemoteConfinement, path: str) -> None:
        """Raises `ToolError` for a file that the verdict does not let be written."""
        launcher = await self.launcher()
        full = path if path.startswith(("/", "~")) else f"{self.folder}/{path}"
        word, said = await self._lines.ask(launcher.check_words(confinement.profile, full))
        if word != "0" or said:
            raise ToolError(said.decode("utf-8", "replace") or f"not written: {path}")

    async def close(self) -> None:
        temporary = self._launcher.temporary if self._launcher else ""
        words = {"folder": self.shell.folder, "temporary": temporary or self.shell.folder}
        await self._lines.ask('rm -rf -- "$folder" "$temporary"', words)

    async def _kept(
        self,
        command: str,
        *,
        tree: str,
        cwd: str,
        report: str,
        confinement: RemoteConfinement | None,
        exit_file: str = "",
        tty: str = "",
    ) -> Start:
        launcher = await self.launcher()
        given = ""
        if confinement is None and self._latest == "held":
            given = await self._harmless_state()
        at = cwd if cwd.startswith(("/", "~")) else f"{self.folder}/{cwd}"
        via = ""
        if confinement is not None:
            via = launcher.words(confinement.profile, tree=tree, cwd=at, report=report)
        return self._start_kept(
            command, source=self._latest, given=given, via=via, tree=tree, cwd=cwd,
            exit_file=exit_file, tty=tty, temporary=launcher.temporary if via else "",
        )  # fmt: skip

    def _start_kept(
        self, command: str, *, source: str, given: str, via: str = "", temporary: str = "",
        tree: str = "", **launch: str,
    ) -> Start:  # fmt: skip
        tree = tree or new_tree()
        preferred = {**QUIET, "TMPDIR": temporary, "XDG_CACHE_HOME": f"{temporary}/cache"}
        made = self.shell.launch(
            command,
            tree=tree,
            descriptors=(STATE_IN, STATE_OUT),
            preferred=preferred if temporary else None,
            **launch,
        )
        words = {"home": self.shell.folder, "from": source, "given": given}
        return Start(
            Launch(made.argv, {**self._variables, **made.variables}),
            via,
            {**words, "tree": tree, "follows": FOLLOWS},
        )

    def _start_here(self, command: str, *, tree: str = "", **launch: str) -> Start:
        made = self.shell.launch(command, tree=tree or new_tree(), **launch)  # type: ignore[arg-type]
        return Start(Launch(made.argv, {**self._variables, **made.variables}))

    async def _harmless_state(self) -> str:
        """What an unconfined command takes over from the confined ones before it."""
        _, said = await self._lines.ask(READ_STATES, {"home": self.shell.folder})
        size, _, both = said.partition(b" ")
        state, cut = ShellState(()), int(size) if size.isdigit() else 0
        state.take(both[:cut], confined=False)
        state.take(both[cut:], confined=True)
        return state.source(confined=False).decode("utf-8", "surrogateescape")
