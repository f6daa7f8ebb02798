"""Brings the launcher of confined commands to a machine at the far end of a line.

It is the very code that confines commands on this machine (`environments.confinement`), which needs
nothing but python3 there. It is sent once for a session, compiled there, and kept in the folder of
the session; each confined command then starts a Python that loads it. Whether the far side can run
it is found out by trying: a command that must not write is started, and has to be refused.
"""

import zlib
from functools import cache
from pathlib import Path

import msgspec

from hermes.core.actions import KernelSupport, Profile
from hermes.environments import confinement
from hermes.environments.confinement.one_command import Order
from hermes.environments.remote.lines import Lines
from hermes.environments.remote.scripts import quote

INSTALL_TIMEOUT_S = 60.0
_PACKAGE = "hermes.environments.confinement"
_MODULES = (
    *("kernel", "landlock", "privileges", "seccomp", "signals", "wire", "verdict_rules"),
    *("notified_call", "terminals", "repository_settings", "enforcement", "supervised_changes"),
    *("connection_supervisor", "supervisor", "resolution", "one_command"),
)
"""In the order in which they can be loaded."""

_LOAD = f"""
import sys, marshal
names = {_PACKAGE!r}.split(".")
for n in range(1, 4):
    name = ".".join(names[:n])
    sys.modules[name] = package = type(sys)(name)
    package.__path__ = []
with open(sys.argv.pop(1), "rb") as file:
    parts = marshal.load(file)
for name, code in parts:
    module = type(sys)({_PACKAGE!r} + "." + name)
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(code, vars(module))
module.main()
"""

# Annotations stay unread, so that a Python of some years ago understands them, too.
_COMPILE = """
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

_INSTALL = r"""
python=$(type -P python3) || { builtin printf 'there is no python3'; return 1; }
mkdir -p -m 700 -- "$folder" "$temporary" || return 1
"$python" -I -S -c "$compile" "$folder/launcher" || return 1
builtin printf '%s\0' "$python"
"$python" -I -S -c "$load" "$folder/launcher" support
"""

_TRIAL = r"""
{ %s "$BASH" --norc -c ': > "$0"' "$folder/trial"; } 2>/dev/null
[[ ! -e $folder/trial && -s $folder/report.trial ]] || { rm -f -- "$folder/trial"; return 1; }
IFS= read -r -d '' kind < "$folder/report.trial"
rm -f -- "$folder/report.trial"
builtin printf %%s "$kind"
"""


@cache
def _bundle() -> bytes:
    folder = Path(confinement.__file__).parent
    parts = [part for name in _MODULES for part in (name, (folder / f"{name}.py").read_text())]
    return zlib.compress("\0".join(parts).encode(), 9)


class Launcher(msgspec.Struct, kw_only=True, frozen=True):
    """The launcher of one session: how its confined commands are started."""

    python: str
    folder: str
    """Of the session: no confined command can change what begins with `protected`."""
    temporary: str
    support: KernelSupport

    def words(self, profile: Profile, *, tree: str, cwd: str, report: str) -> str:
        """Stands before the words that start a command. Refusals are written to `report`."""
        order = self.order(profile, tree=tree, cwd=cwd)
        given = ("-I", "-S", "-c", _LOAD, f"{self.folder}/launcher", "run", order, report)
        return " ".join(map(quote, (self.python, *given)))

    def check_words(self, profile: Profile, path: str) -> str:
        """Print why `path` must not be written under the profile; nothing when it may be."""
        order = self.order(profile, tree="", cwd="/")
        given = ("-I", "-S", "-c", _LOAD, f"{self.folder}/launcher", "writable", order, path)
        return " ".join(map(quote, (self.python, *given)))

    def order(self, profile: Profile, *, tree: str, cwd: str) -> str:
        order = Order()
        order.profile = msgspec.structs.asdict(profile)
        order.folder, order.temporary, order.mark = cwd, self.temporary, tree
        order.protected = (f"{self.folder.rpartition('/')[0]}/.hermes-",)
        return order.pack()


async def install(lines: Lines, folder: str) -> Launcher:
    """Where the far side cannot confine commands, `support.reason` says why.

    Raises `PlaceFailed` when the place cannot be reached.
    """
    base, _, name = folder.rpartition("/")
    temporary = f"{base}/hermes-tmp-{name.rpartition('-')[2]}"
    words = {"folder": folder, "temporary": temporary, "compile": _COMPILE, "load": _LOAD}
    word, said = await lines.ask(_INSTALL, words, _bundle(), patience=INSTALL_TIMEOUT_S)
    python, _, answer = said.decode("utf-8", "replace").partition("\0")
    if word != "0":
        return _unable(folder, python.strip()[-300:])
    version, root, reason = (*answer.split(" ", 2), "", "", "")[:3]
    if reason or not version.isdigit():
        return _unable(folder, reason or answer[-300:])
    support = KernelSupport(landlock=int(version), root=root == "1")
    made = Launcher(python=python, folder=folder, temporary=temporary, support=support)
    start = made.words(Profile(), tree="trial", cwd="/", report=f"{folder}/report.trial")
    word, said = await lines.ask(_TRIAL % start, {"folder": folder}, patience=INSTALL_TIMEOUT_S)
    if word != "0" or said != b"write":
        return _unable(folder, "a command that must not write could not be held there")
    return made


def _unable(folder: str, why: str) -> Launcher:
    reason = f"commands there are not confined by the kernel: {why}"
    return Launcher(python="", folder=folder, temporary="", support=KernelSupport(reason=reason))
