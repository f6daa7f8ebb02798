"""Names of machines: which of them are certainly in the house."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from posixpath import basename, dirname
from typing import Protocol

from hermes.policy.commands import paths, tables
from hermes.policy.commands.effects import CommandTarget, SimpleCommand
from hermes.policy.commands.paths import PathClassifier
from hermes.policy.commands.placeholders import (
    LIVE_GLOB,
    UNKNOWN_TEXT,
    UNTRUSTED_UNKNOWN,
    display_text,
    is_fully_known,
)
from hermes.policy.commands.scope import ShellScope
from hermes.policy.commands.syntax import Node
from hermes.policy.commands.words import WordFields

LOCAL_HOST = re.compile(
    r"(?:localhost|[\w-]+\.localhost|127(?:\.\d+){0,3}|0(?:\.0){0,3}|\[::1?\]|::1|10(?:\.\d+){3}"
    r"|192\.168(?:\.\d+){2}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d+){2}|\[f[cd][0-9a-f:]+\]"
    r"|[\w-]+|[\w.-]+\.(?:local|internal|lan|svc|intranet|corp|home|localdomain|cluster\.local))\.?\Z",
    re.I,
)
LOOPBACK_HOST = re.compile(r"(?:localhost|127(?:\.\d+){3}|\[?::1\]?)\Z", re.I)


class CommandAnalyst(Protocol):
    """Who reads nested commands; the walker, seen from below."""

    places: PathClassifier
    kept: int
    """How many commands were judged and written down so far."""

    def run(self, call: "ProgramCall") -> str:
        """Judge a command given by its words; gives what it would print."""
        ...

    def shell(self, call: "ProgramCall", text: str, scope: ShellScope) -> str:
        """Judge a shell text that this command would run."""
        ...


@dataclass
class ProgramCall:
    """A program, its words and its surroundings; findings are added as they are made."""

    analyst: CommandAnalyst
    argv: list[str]
    scope: ShellScope
    stdin: str | None = None
    """What is piped in, as far as it is known; None when nothing is."""
    doubtful: bool = False
    """Some word has another value when a variable is set."""
    disputed: bool = False
    """The program itself has another name when a variable is set."""
    via: tuple[str, ...] = ()
    node: tuple[int, int] = (0, 0)
    target: CommandTarget = field(default_factory=CommandTarget)
    effects: dict[str, str] = field(default_factory=dict)
    program: str = ""
    flags: tuple[str, ...] = ()
    paths: list[str] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    """Those of the paths whose content it reads."""
    changes: list[str] = field(default_factory=list)
    repositories: list[str] = field(default_factory=list)
    """Folders in which git changes the repository they belong to."""
    peeled: frozenset[str] | None = None
    """Effects that the commands run by this one have taken over."""
    borrowed: str = ""
    """How it got another user's rights from a wrapper, such as sudo."""
    guarded: bool = True
    """False when the program can be left for a shell by a key."""

    def mark(self, effect: str, why: str) -> None:
        self.effects.setdefault(effect, why)

    def marks(self, effects: tuple[str, ...], why: str) -> None:
        for effect in effects:
            self.mark(effect, why)

    def dynamic(self, why: str) -> None:
        self.mark("exec-dynamic", why)

    def irreversible(self, why: str) -> None:
        self.mark("irreversible", why)

    def child(
        self, argv: list[str], *, stdin: str | None = None, scope: ShellScope | None = None
    ) -> "ProgramCall":
        """A command that this one runs, and to which its own effects stick."""
        self.peeled = (self.peeled or frozenset()) | frozenset(self.effects)
        return ProgramCall(
            self.analyst,
            argv,
            scope or self.scope,
            stdin=stdin if stdin is not None else self.stdin,
            via=(*self.via, self.program),
            node=self.node,
            target=self.target,
            effects=dict(self.effects),
            borrowed=self.borrowed,
            guarded=self.guarded,
        )

    def run(self, argv: list[str], **around: object) -> str:
        """Peel: judge the command that this one runs."""
        if not argv:
            return ""
        before, peeled = self.analyst.kept, self.peeled
        call = self.child(argv)
        for name, value in around.items():
            setattr(call, name, value)
        printed = self.analyst.run(call)
        if self.analyst.kept == before:
            self.peeled = peeled
        return printed

    def shell(self, text: str, *, scope: ShellScope | None = None, stdin: str | None = None) -> str:
        """Peel: judge the shell text that this one runs."""
        before, peeled = self.analyst.kept, self.peeled
        call = self.child([], stdin=stdin)
        if not is_fully_known(text) and UNTRUSTED_UNKNOWN.search(text):
            call.dynamic("part of what it hands to a shell is only known at run time")
        printed = self.analyst.shell(call, text, scope or self.scope)
        if self.analyst.kept == before:
            self.peeled = peeled
        return printed

    def aim(self, **where: str) -> None:
        """Note what a wrapper or verb names as its target."""
        self.target = replace_target(
            self.target, {key: display_text(one) for key, one in where.items()}
        )

    def path(self, word: str) -> str:
        return paths.resolve_path(word, self.scope.cwd)

    def names(self, word: str) -> str:
        """A path that is only named: its content stays unread."""
        path = self.path(word)
        self.paths.append(path)
        return path

    def reads(self, word: str) -> None:
        if word[:2] in ("@/", "@~", "@."):
            self.reads(word[1:])  # how many programs are told to take their words from a file
        path = self.names(word)
        self.contents.append(path)
        if paths.is_network_path(path):
            # Opened for reading it sends nothing, and whether a port answers is a fair question.
            near = not UNTRUSTED_UNKNOWN.search(path) and LOCAL_HOST.match(path.split("/")[3:4][0])
            self.mark(
                "network-local" if near else "network-out",
                f"{display_text(path)} is a network connection",
            )
        for place in self.analyst.places.with_real_path(path):
            if self.analyst.places.is_secret(place):
                self.mark("secret-read", f"{display_text(place)} holds secrets")

    def writes(self, word: str, why: str = "") -> None:
        path = self.names(word)
        if paths.discards_writes(path) or path == self.scope.cwd + "/-":
            return
        reason = why or f"writes {display_text(path)}"
        for place in self.analyst.places.with_real_path(path):
            self._dangers(place, reason)
        self.changes += self.analyst.places.with_real_path(path)
        self._aliased(path)
        self.mark("write", reason)

    def _aliased(self, path: str) -> None:
        """A file that can be reached by another name is not only what its path says."""
        if self.analyst.places.has_other_names(path):
            self.mark(
                "unknown", f"{display_text(path)} has another name, whose file would change, too"
            )
        for folder in self.scope.unpacked:
            if path.startswith(f"{folder}/"):
                self.mark(
                    "unknown",
                    f"{display_text(path)} may lead elsewhere by a link that was unpacked",
                )

    def _dangers(self, path: str, reason: str) -> None:
        places = self.analyst.places
        if paths.is_block_device(path):
            self.wipe(f"{display_text(path)} is a block device or memory")
        if places.is_vital(path):
            self.irreversible(f"nothing works without {display_text(path)}")
        if paths.is_network_path(path):
            self.mark("network-out", f"{display_text(path)} is a network connection")
        if paths.is_kernel_path(path):
            self.mark("service-change", f"{display_text(path)} is a switch of the kernel")
        if places.is_own_file(path):
            self.own(path)
        if any(path.startswith(one) or f"/{one}" in path for one in _PRIVILEGE_FILES):
            self.mark("privilege", f"{display_text(path)} decides what may run, or as whom")

    def deletes(self, word: str, *, recursive: bool = False, why: str = "") -> None:
        path = self.names(word)
        if paths.discards_writes(path):
            return
        self.changes += self.analyst.places.with_real_path(path)
        self.mark("delete", why or f"removes {display_text(path)}")
        if self.analyst.places.is_socket(path):
            self.mark(
                "service-change", f"{display_text(path)} is a socket that a service listens on"
            )
        for place in self.analyst.places.with_real_path(path):
            self._losses(place, recursive)

    def _losses(self, path: str, recursive: bool) -> None:
        places = self.analyst.places
        worst = paths.with_unknown_emptied(path) if UNTRUSTED_UNKNOWN.search(path) else path
        if places.is_own_file(path, tree=recursive or LIVE_GLOB.search(path) is not None):
            self.own(path)
        if paths.is_block_device(path):
            self.wipe(f"{display_text(path)} is a device")
        wide = recursive or LIVE_GLOB.search(path) is not None
        if wide and places.is_system_tree(worst):
            if UNTRUSTED_UNKNOWN.search(path):
                self.irreversible(f"with an empty variable {display_text(path)} is {worst}")
            else:
                self.wipe(f"{display_text(path)} is a tree of the system")
        if places.is_precious(worst) or (recursive and not places.is_temporary_path(path)):
            self.irreversible(f"what is lost in {display_text(path)} does not come back")

    def wipe(self, why: str) -> None:
        self.mark("wipe", why)
        self.irreversible(why)

    def own(self, path: str) -> None:
        self.mark("self-change", f"{display_text(path)} is one of our own files")
        self.irreversible(f"{display_text(path)} is one of our own files")

    def result(self) -> SimpleCommand:
        effects = self.effects or {"read": f"{self.program} only looks"}
        return SimpleCommand(
            program=display_text(self.program),
            argv=tuple(map(display_text, self.argv)),
            flags=tuple(map(display_text, self.flags)),
            paths=tuple(dict.fromkeys(map(display_text, self.paths))),
            changes=tuple(dict.fromkeys(map(display_text, self.changes))),
            repositories=tuple(dict.fromkeys(map(display_text, self.repositories))),
            effects=frozenset(effects),
            via=tuple(map(display_text, self.via)),
            node=self.node,
            why=tuple(f"{effect}: {why}" for effect, why in effects.items()),
            target=self.target,
        )


_PRIVILEGE_FILES = (
    "/etc/sudoers", "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/cron",
    "/var/spool/cron", "/etc/systemd", "/lib/systemd", "/usr/lib/systemd", "/etc/ld.so",
    "/etc/profile", "/etc/bash", "/etc/environment", "/etc/pam.d", "/etc/init.d", "/etc/rc",
    "/etc/ssh/", "/etc/security", "/etc/apt/", "/etc/polkit-1", "/etc/udev", "/etc/modprobe",
    ".ssh/authorized_keys", ".ssh/config", ".bashrc", ".bash_profile", ".profile", ".zshrc",
    ".bash_login", ".bash_aliases", ".gitconfig", ".git/hooks/", ".git/config", ".config/autostart",
    "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/bin/", "/sbin/", ".vimrc", ".inputrc",
)  # fmt: skip


def replace_target(target: CommandTarget, where: dict[str, str]) -> CommandTarget:
    known = {name: getattr(target, name) for name in target.__struct_fields__}
    return CommandTarget(**{**known, **where})


CallHandler = Callable[[ProgramCall], str | None]


_VERSIONED_PROGRAM = re.compile(
    r"(python|pypy|perl|ruby|php|lua|node|nodejs|pip|gcc|g\+\+|clang|java|bash|ksh|zsh|tclsh|wish"
    r"|guile|psql|pg_dump|vim|gdb|clickhouse|scala|irb|gem|erl|julia|R|octave|luajit|idle|pydoc)"
    r"[-.]?\d[\d.]*[a-z]?\Z"
)


def program_name(call: ProgramCall) -> str:
    """The program's plain name; marks the call when nobody can tell which program it is."""
    word = call.argv[0]
    if not word or UNKNOWN_TEXT.search(word):
        call.dynamic("which program runs is only known at run time")
        return display_text(word)
    if LIVE_GLOB.search(word):
        call.dynamic(f"{display_text(word)} is whatever program the wildcard finds")
        return display_text(word)
    if not word.isascii():
        call.dynamic(f"{word} is no name of a program, it only looks like one")
        return word
    if call.disputed:
        call.dynamic("which program runs depends on a variable")
    return _table_name(_name_at_path(call, word) if "/" in word else word)


def _name_at_path(call: ProgramCall, word: str) -> str:
    path = call.path(word)
    places = call.analyst.places
    if path.startswith("/etc/init.d/") and dirname(path) == "/etc/init.d":
        call.argv = ["service", basename(path), *call.argv[1:]]
        return "service"
    real = places.real_path(path)
    if places.is_trusted_folder(dirname(path)):
        target = basename(real)
        return target if target != basename(path) and _is_known_program(target) else basename(path)
    call.mark("unknown", f"{display_text(word)} is not one of the system's programs")
    return basename(path)


def _is_known_program(name: str) -> bool:
    return tables.find_program(_table_name(name)) is not None


def _table_name(name: str) -> str:
    """The name that the tables use."""
    if tables.find_program(name) is None and (versioned := _VERSIONED_PROGRAM.match(name)):
        return versioned.group(1)
    return name


class TooManyCommands(Exception):
    """The text holds more commands than anyone would read before saying yes."""


class ScriptWalk(Protocol):
    """One text being walked."""

    text: bytes

    def statement(self, node: Node, scope: ShellScope, stdin: str | None) -> str:
        """Judge a statement; gives what it would print."""
        ...

    def children(self, node: Node) -> list[Node]: ...
    def fields(self, node: Node, scope: ShellScope) -> WordFields: ...
    def value(self, node: Node, scope: ShellScope) -> str: ...
    def body(self, node: Node, scope: ShellScope) -> str: ...
    def substitutions(self, node: Node, scope: ShellScope) -> list[str]:
        """Judge every substitution below a node, and give what each would print."""
        ...

    def arithmetic(self, node: Node, scope: ShellScope) -> None:
        """Judge a node whose text the shell evaluates as arithmetic."""
        ...

    def call(self, node: Node, scope: ShellScope) -> ProgramCall:
        """A fresh command at a place of the text, with what surrounds the text sticking to it."""
        ...

    def run(self, call: ProgramCall) -> str:
        """Judge a command and keep the result."""
        ...

    def keep(self, call: ProgramCall) -> None:
        """Keep a result as it is."""
        ...


NodeHandler = Callable[[ScriptWalk, Node, ShellScope, str | None], str]
