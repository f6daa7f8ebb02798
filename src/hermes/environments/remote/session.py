"""Keeps the shell session on another host, and installs the launcher of confined commands there.

The launcher is the code that confines commands on this machine (`environments.confinement`); it
needs only python3. It is sent once for each session, compiled there, and kept in the folder of the
session; each confined command starts a Python that loads it. A trial tells whether the host
supports it: a command that must not write is started, and has to be refused.
"""

import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import anyio
import msgspec

from hermes.core.actions import BlockedAccess, ConfinementProfile, KernelSupport
from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.environments import confinement
from hermes.environments.confinement.one_command import REPORT_PATH_CHANGED, ConfinedCommandOrder
from hermes.environments.processes.shell_session import ShellState
from hermes.environments.remote.channels import ChannelPool
from hermes.environments.remote.run import RemoteExitMessage, run_remote
from hermes.environments.remote.scripts import (
    FOLDER_MARK_TEXT,
    READ_STATES_SCRIPT,
    STATE_IN_DESCRIPTOR,
    STATE_OUT_DESCRIPTOR,
    RemoteShellStart,
    keep_state_script,
    quote_word,
)
from hermes.environments.sandboxing.confined_commands import READ_ONLY_VARIABLES
from hermes.environments.shell import SessionShell, ShellLaunch, new_tree_mark

INSTALL_TIMEOUT_S = 60.0
_CONFINEMENT_PACKAGE = "hermes.environments.confinement"
BUNDLED_MODULES = (
    *("kernel", "landlock", "seccomp", "messages", "process_control", "call_supervisor"),
    *("hidden_files", "verdict_paths", "enforcement", "supervised_changes"),
    *("installed_programs", "judged_files", "read_check"),
    *("limits", "command_supervisor", "replacement", "one_command"),
)
"""The modules that are sent, in the order in which they can be loaded."""

_LOADER_PROGRAM = f"""
import sys, marshal
names = {_CONFINEMENT_PACKAGE!r}.split(".")
for n in range(1, 4):
    name = ".".join(names[:n])
    sys.modules[name] = package = type(sys)(name)
    package.__path__ = []
with open(sys.argv.pop(1), "rb") as file:
    parts = marshal.load(file)
for name, code in parts:
    module = type(sys)({_CONFINEMENT_PACKAGE!r} + "." + name)
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(code, vars(module))
module.main()
"""

# Annotations are not evaluated, so that older versions of Python can compile them.
_COMPILE_PROGRAM = """
import sys, marshal, zlib, __future__
if sys.version_info < (3, 8):
    sys.exit("python3 there is older than 3.8")
flag = __future__.annotations.compiler_flag
parts = zlib.decompress(sys.stdin.buffer.read()).decode().split("\\0")
pairs = list(zip(parts[::2], parts[1::2]))
code = [(name, compile(text, name, "exec", flag, True)) for name, text in pairs]
with open(sys.argv[1], "wb") as file:
    marshal.dump(code, file)
"""

_INSTALL_SCRIPT = r"""
python=$(type -P python3) || { builtin printf 'there is no python3'; return 1; }
mkdir -p -m 700 -- "$folder" "$temporary" || return 1
"$python" -I -S -c "$compile" "$folder/launcher" || return 1
builtin printf '%s\0' "$python"
"$python" -I -S -c "$load" "$folder/launcher" support
"""

_TRIAL_SCRIPT = r"""
{ %s "$BASH" --norc -c ': > "$0"' "$folder/trial"; } 2>/dev/null
[[ ! -e $folder/trial && -s $folder/report.trial ]] || { rm -f -- "$folder/trial"; return 1; }
IFS= read -r -d '' kind < "$folder/report.trial"
rm -f -- "$folder/report.trial"
builtin printf %%s "$kind"
"""


@cache
def _bundle() -> bytes:
    folder = Path(confinement.__file__).parent
    parts = [
        part for name in BUNDLED_MODULES for part in (name, (folder / f"{name}.py").read_text())
    ]
    return zlib.compress("\0".join(parts).encode(), 9)


_VISIBLE_SECRETS = {
    "0": "only root can hide them",
    "2": "mounts of its own are forbidden there, as in some containers",
}


class RemoteLauncher(msgspec.Struct, kw_only=True, frozen=True):
    """The launcher of one session: how its confined commands are started."""

    python: str
    folder: str
    """The folder of the session, which no confined command can change."""
    temporary: str
    support: KernelSupport

    def words(self, profile: ConfinementProfile, *, tree: str, cwd: str, report: str) -> str:
        """The words before the argv of a command. Refusals are written to `report`."""
        return self._command("run", self.order(profile, tree=tree, cwd=cwd), report)

    def replace_words(self, profile: ConfinementProfile, path: str, size: int) -> str:
        """A command that writes its input to `path`, or prints why it cannot or must not."""
        order = self.order(profile, tree="", cwd="/")
        return self._command("replace", order, path, str(size))

    def _command(self, *arguments: str) -> str:
        start = (self.python, "-I", "-S", "-c", _LOADER_PROGRAM, f"{self.folder}/launcher")
        return " ".join(map(quote_word, (*start, *arguments)))

    def order(self, profile: ConfinementProfile, *, tree: str, cwd: str) -> str:
        order = ConfinedCommandOrder()
        order.profile = msgspec.structs.asdict(profile)
        order.folder, order.temporary, order.mark = cwd, self.temporary, tree
        order.protected = (f"{self.folder.rpartition('/')[0]}/.hermes-",)
        return order.pack()


async def install_launcher(channels: ChannelPool, folder: str) -> RemoteLauncher:
    """If the host cannot confine commands, `support.reason` says why.

    Raises `EnvironmentFailed` when the host is unreachable.
    """
    base, _, name = folder.rpartition("/")
    temporary = f"{base}/hermes-tmp-{name.rpartition('-')[2]}"
    words = {
        "folder": folder,
        "temporary": temporary,
        "compile": _COMPILE_PROGRAM,
        "load": _LOADER_PROGRAM,
    }
    word, output = await channels.run_program(
        _INSTALL_SCRIPT, words, _bundle(), timeout=INSTALL_TIMEOUT_S
    )
    python, _, answer = output.decode("utf-8", "replace").partition("\0")
    if word != "0":
        return _unsupported_launcher(folder, python.strip()[-300:])
    version, root, reason = (*answer.split(" ", 2), "", "", "")[:3]
    if reason or not version.isdigit():
        return _unsupported_launcher(folder, reason or answer[-300:])
    support = KernelSupport(
        landlock=int(version), root=root != "0", visible_secrets=_VISIBLE_SECRETS.get(root, "")
    )
    launcher = RemoteLauncher(python=python, folder=folder, temporary=temporary, support=support)
    start = launcher.words(
        ConfinementProfile(), tree="trial", cwd="/", report=f"{folder}/report.trial"
    )
    word, output = await channels.run_program(
        _TRIAL_SCRIPT % start, {"folder": folder}, timeout=INSTALL_TIMEOUT_S
    )
    if word != "0" or output != b"write":
        return _unsupported_launcher(
            folder, "a command that must not write could not be held there"
        )
    return launcher


def _unsupported_launcher(folder: str, why: str) -> RemoteLauncher:
    reason = f"commands there are not confined by the kernel: {why}"
    return RemoteLauncher(
        python="", folder=folder, temporary="", support=KernelSupport(reason=reason)
    )


START_TIMEOUT_S = 60.0
FILE_TIMEOUT_S = 600.0
LAUNCHER_MISSING = "uninstalled"
"""The exit message of a command that found no launcher: its container was replaced."""


class RemoteConfinement:
    """The commands of one verdict, and what the kernel refused to them."""

    def __init__(self, profile: ConfinementProfile) -> None:
        self.profile = profile
        self.refusals: list[BlockedAccess] = []

    @property
    def judged(self) -> str:
        return self.profile.describe

    def blocked(self) -> list[BlockedAccess]:
        """Return what was refused since the last call."""
        found = list(self.refusals)
        self.refusals.clear()
        return found


@dataclass
class SessionCommand:
    """One command of the session: what is sent, and its result."""

    body: str
    words: Mapping[str, str | int] = field(default_factory=dict)
    last: RemoteExitMessage = field(default_factory=lambda: RemoteExitMessage(None))


class RemoteSession:
    def __init__(
        self, channels: ChannelPool, shell: SessionShell, variables: Mapping[str, str]
    ) -> None:
        self.shell, self.folder = shell, ""
        self._channels, self._variables = channels, variables
        self._launcher: RemoteLauncher | None = None
        self._installing = anyio.Lock()
        self._latest = "free"
        """Which of the two states is the newer one."""

    async def launcher(self) -> RemoteLauncher:
        """Installed at the first call. Raises `EnvironmentFailed` when the host is unreachable."""
        async with self._installing:
            if self._launcher is None:
                launcher = await install_launcher(self._channels, self.shell.folder)
                if not launcher.support.reason:
                    await self._begin_to_keep_states()
                self._launcher = launcher
            return self._launcher

    async def _begin_to_keep_states(self) -> None:
        """Reads the current state, or that of a new session, from the host."""
        before = await self._run_nothing(
            SessionCommand(f"{self._start_here(':').inner} 2>&1\nword=$?")
        )
        if before.code != 0:
            raise EnvironmentFailed(f"no shell can be started in {self._channels.client.place}")
        of = self._start_kept(":", source="state", state="")
        await self._run_nothing(SessionCommand(keep_state_script(of), {**of.words, "into": "free"}))
        await self._channels.run_program('rm -f -- "$home/state"', {"home": self.shell.folder})
        self._latest = "free"

    async def _run_nothing(self, session_command: SessionCommand) -> RemoteExitMessage:
        _, last = await run_remote(
            self._channels,
            session_command.body,
            session_command.words,
            tree="none",
            timeout=START_TIMEOUT_S,
            stdin=b"",
        )
        self.folder = last.folder or self.folder
        return last

    @asynccontextmanager
    async def prepare_command(
        self, command: str, *, tree: str, cwd: str, confinement: RemoteConfinement | None
    ) -> AsyncIterator[SessionCommand]:
        """The caller runs the command and stores its exit message in it.

        Raises `ToolError` or `EnvironmentFailed` for a command that could not be confined.
        """
        if not await self._keeps_states(confinement):
            yield SessionCommand(
                f"{self._start_here(command, tree=tree, cwd=cwd).inner} 2>&1\nword=$?"
            )
            return
        report = f"{self.shell.folder}/report.{tree}"
        of = await self._kept(command, tree=tree, cwd=cwd, report=report, confinement=confinement)
        into = "free" if confinement is None else "held"
        session_command = SessionCommand(keep_state_script(of), {**of.words, "into": into})
        yield session_command
        self._record_last_word(session_command.last, into, confinement)

    def _record_last_word(
        self, last: RemoteExitMessage, into: str, confinement: RemoteConfinement | None
    ) -> None:
        if last.text == LAUNCHER_MISSING:
            self._launcher, self.folder = None, ""
            raise EnvironmentFailed(
                "not run: the container was replaced, and the files and the shell state in it are "
                "gone. The next command starts a new session"
            )
        if last.not_run is not None:
            kind, reason = last.not_run
            raise ToolError(reason) if kind == REPORT_PATH_CHANGED else EnvironmentFailed(reason)
        if confinement is not None:
            confinement.refusals += last.blocked
        if last.folder:
            self._latest, self.folder = into, last.folder

    async def prepare_background(
        self,
        command: str,
        *,
        tree: str,
        cwd: str,
        tty: str,
        report: str,
        confinement: RemoteConfinement | None,
    ) -> RemoteShellStart:
        """Return how to start a process that does not change the state of the session."""
        if not await self._keeps_states(confinement):
            return self._start_here(command, tree=tree, cwd=cwd, exit_file="/dev/null", tty=tty)
        return await self._kept(
            command, tree=tree, cwd=cwd, tty=tty, report=report, confinement=confinement,
            exit_file="/dev/null",
        )  # fmt: skip

    async def _keeps_states(self, confinement: RemoteConfinement | None) -> bool:
        """Return whether the launcher works. Raises `EnvironmentFailed` for a command that needs
        it."""
        if confinement is None:
            return self._launcher is not None and not self._launcher.support.reason
        if reason := (await self.launcher()).support.reason:
            raise EnvironmentFailed(f"not run: the command could not be confined ({reason})")
        return True

    async def write(self, confinement: RemoteConfinement, path: str, data: bytes) -> None:
        """Raises `ToolError` for a file that cannot be, or that the verdict does not let be,
        written."""
        launcher = await self.launcher()
        if reason := launcher.support.reason:
            raise EnvironmentFailed(f"not written: {reason}")
        full = path if path.startswith(("/", "~")) else f"{self.folder}/{path}"
        body = launcher.replace_words(confinement.profile, full, len(data))
        word, output = await self._channels.run_program(
            body, stdin=data, ends_itself=True, timeout=FILE_TIMEOUT_S
        )
        if word != "0" or output:
            reason = output.decode("utf-8", "replace").strip()[-500:] or "it failed"
            raise ToolError(f"cannot write {path}: {reason}")

    async def close(self) -> None:
        temporary = self._launcher.temporary if self._launcher else ""
        words = {"folder": self.shell.folder, "temporary": temporary or self.shell.folder}
        await self._channels.run_program('rm -rf -- "$folder" "$temporary"', words)

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
    ) -> RemoteShellStart:
        launcher = await self.launcher()
        state = ""
        if confinement is None and self._latest == "held":
            state = await self._harmless_state()
        at = cwd if cwd.startswith(("/", "~")) else f"{self.folder}/{cwd}"
        via = ""
        if confinement is not None:
            via = launcher.words(confinement.profile, tree=tree, cwd=at, report=report)
        return self._start_kept(
            command, source=self._latest, state=state, via=via, tree=tree, cwd=cwd,
            exit_file=exit_file, tty=tty, temporary=launcher.temporary if via else "",
        )  # fmt: skip

    def _start_kept(
        self, command: str, *, source: str, state: str, via: str = "", temporary: str = "",
        tree: str = "", **launch: str,
    ) -> RemoteShellStart:  # fmt: skip
        tree = tree or new_tree_mark()
        preferred = {
            **READ_ONLY_VARIABLES,
            "TMPDIR": temporary,
            "XDG_CACHE_HOME": f"{temporary}/cache",
        }
        started = self.shell.launch(
            command,
            tree=tree,
            descriptors=(STATE_IN_DESCRIPTOR, STATE_OUT_DESCRIPTOR),
            preferred=preferred if temporary else None,
            **launch,  # type: ignore[arg-type]
        )
        words = {"home": self.shell.folder, "from": source, "given": state}
        return RemoteShellStart(
            ShellLaunch(started.argv, {**self._variables, **started.variables}),
            via,
            {**words, "tree": tree, "follows": FOLDER_MARK_TEXT},
        )

    def _start_here(self, command: str, *, tree: str = "", **launch: str) -> RemoteShellStart:
        started = self.shell.launch(command, tree=tree or new_tree_mark(), **launch)  # type: ignore[arg-type]
        return RemoteShellStart(ShellLaunch(started.argv, {**self._variables, **started.variables}))

    async def _harmless_state(self) -> str:
        """The state that an unconfined command takes over from confined ones before it."""
        _, output = await self._channels.run_program(
            READ_STATES_SCRIPT, {"home": self.shell.folder}
        )
        size, _, both = output.partition(b" ")
        state, cut = ShellState(), int(size) if size.isdigit() else 0
        state.take(both[:cut], confined=False)
        state.take(both[cut:], confined=True)
        return state.source(confined=False).decode("utf-8", "surrogateescape")
