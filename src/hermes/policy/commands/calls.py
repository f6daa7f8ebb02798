"""One program call with its words and the effects found so far; also which hosts are internal."""

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
    SYSTEM_NAME,
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
    """Analyses nested commands; implemented by the walker."""

    classifier: PathClassifier
    kept: int
    """How many commands were analysed and kept so far."""
    captures: int
    """How many substitutions, whose output becomes words, are around what is analysed."""

    def run(self, call: "ProgramCall") -> str:
        """Analyses a command given by its words; returns its output, if known."""
        ...

    def shell(self, call: "ProgramCall", text: str, scope: ShellScope) -> str:
        """Analyses a shell text that this command would run."""
        ...


@dataclass
class ProgramCall:
    """A program, its words and its context; effects are added as they are found."""

    analyst: CommandAnalyst
    argv: list[str]
    scope: ShellScope
    stdin: str | None = None
    """The piped input, as far as known; None without a pipe."""
    doubtful: bool = False
    """Some word depends on whether a variable is set."""
    disputed: bool = False
    """The program name depends on whether a variable is set."""
    via: tuple[str, ...] = ()
    node: tuple[int, int] = (0, 0)
    target: CommandTarget = field(default_factory=CommandTarget)
    effects: dict[str, str] = field(default_factory=dict)
    program: str = ""
    flags: tuple[str, ...] = ()
    paths: list[str] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    """The paths whose content it reads."""
    changes: list[str] = field(default_factory=list)
    repositories: list[str] = field(default_factory=list)
    """Folders whose git repository it changes."""
    peeled: frozenset[str] | None = None
    """Effects that were passed on to the commands that this one runs."""
    borrowed: str = ""
    """The wrapper that gave it another user's rights, such as sudo."""
    guarded: bool = True
    """False when a key in the program opens a shell."""
    inherited: frozenset[str] = frozenset()
    """Settings of a client that it gets from the environment: `PGPASSWORD=$DBPASS psql`."""

    def mark(self, effect: str, why: str) -> None:
        self.effects.setdefault(effect, why)

    def mark_all(self, effects: tuple[str, ...], why: str) -> None:
        for effect in effects:
            self.mark(effect, why)

    def dynamic(self, why: str) -> None:
        self.mark("exec-dynamic", why)

    def irreversible(self, why: str) -> None:
        self.mark("irreversible", why)

    def child(
        self, argv: list[str], *, stdin: str | None = None, scope: ShellScope | None = None
    ) -> "ProgramCall":
        """A command that this one runs, and that gets its effects."""
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
        """Analyses the command that this one runs."""
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
        """Analyses the shell text that this one runs."""
        before, peeled = self.analyst.kept, self.peeled
        call = self.child([], stdin=stdin)
        if not is_fully_known(text) and UNTRUSTED_UNKNOWN.search(text):
            call.dynamic("part of what it hands to a shell is only known at run time")
        elif LIVE_GLOB.search(text):
            call.dynamic("names of files become part of what a shell runs")
        printed = self.analyst.shell(call, text, scope or self.scope)
        if self.analyst.kept == before:
            self.peeled = peeled
        return printed

    def set_target(self, **where: str) -> None:
        """Sets the target that a wrapper or verb names."""
        self.target = replace_target(
            self.target, {key: display_text(one) for key, one in where.items()}
        )

    def path(self, word: str) -> str:
        return paths.resolve_path(word, self.scope.cwd)

    def names(self, word: str) -> str:
        """A path that is only named; its content is not read."""
        path = self.path(word)
        self.paths.append(path)
        return path

    def reads(self, word: str) -> None:
        if word[:2] in ("@/", "@~", "@."):
            self.reads(word[1:])  # `@file`: many programs read arguments from a file
        path = self.names(word)
        self.contents.append(path)
        if paths.is_network_path(path):
            # Opening it for reading sends nothing by itself: it shows whether a port answers.
            near = not UNTRUSTED_UNKNOWN.search(path) and LOCAL_HOST.match(path.split("/")[3:4][0])
            self.mark(
                "network-local" if near else "network-out",
                f"{display_text(path)} is a network connection",
            )
        if word == SYSTEM_NAME:
            return  # a name from another program's output says nothing of the working folder
        for each in self.analyst.classifier.with_real_path(path):
            if self.analyst.classifier.is_secret(each):
                self.mark("secret-read", f"{display_text(each)} holds secrets")
            elif self.analyst.classifier.is_device(each):
                self.mark(
                    "secret-read", f"{display_text(each)} is a device, with all that is on it"
                )

    def writes(
        self, word: str, why: str = "", *, tree: bool = False, attributes: bool = False
    ) -> None:
        """`tree`: whatever is below the path may be replaced as well. `attributes`: also mode and
        owner, which even /dev/null keeps."""
        path = self.names(word)
        if (paths.discards_writes(path) and not attributes) or path == self.scope.cwd + "/-":
            return
        reason = why or f"writes {display_text(path)}"
        for each in self.analyst.classifier.with_real_path(path):
            self._dangers(each, reason)
            if tree and self.analyst.classifier.holds_own_file(each):
                self.own_below(each)
        self.changes += self.analyst.classifier.with_real_path(path)
        self._aliased(path)
        self.disturbs(path)
        self.mark("write", reason)

    def _aliased(self, path: str) -> None:
        """Checks for a file that has other names (hard links)."""
        if self.analyst.classifier.has_other_names(path):
            self.mark(
                "unknown", f"{display_text(path)} has another name, whose file would change, too"
            )
        self._unpacked(path)

    def _unpacked(self, path: str) -> None:
        for folder in self.scope.unpacked:
            if path.startswith(f"{folder}/"):
                self.mark(
                    "unknown",
                    f"{display_text(path)} may lead elsewhere by a link that was unpacked",
                )

    def _dangers(self, path: str, reason: str) -> None:
        classifier = self.analyst.classifier
        if paths.is_block_device(path):
            self.wipe(f"{display_text(path)} is a block device or memory")
        if classifier.is_vital(path):
            self.irreversible(f"nothing works without {display_text(path)}")
        if paths.is_network_path(path):
            self.mark("network-out", f"{display_text(path)} is a network connection")
        if paths.is_kernel_path(path):
            self.mark("service-change", f"{display_text(path)} is a switch of the kernel")
        if classifier.is_own_file(path):
            self.own(path)
        if any(path.startswith(one) or f"/{one}" in path for one in _PRIVILEGE_FILES):
            self.mark("privilege", f"{display_text(path)} decides what may run, or as whom")

    def deletes(self, word: str, *, recursive: bool = False, why: str = "") -> None:
        path = self.names(word)
        if paths.discards_writes(path):
            return
        self.changes += self.analyst.classifier.with_real_path(path)
        self.mark("delete", why or f"removes {display_text(path)}")
        self.disturbs(path, tree=recursive)
        # A link itself may be removed, but nothing behind it.
        self._unpacked(path if word.endswith("/") else dirname(path))
        for each in self.analyst.classifier.with_real_path(path):
            self._losses(each, recursive)

    def disturbs(self, path: str, *, tree: bool = False) -> None:
        """Marks a change of what a service listens on or locks; `tree`: or of what is below."""
        for each in self.analyst.classifier.with_real_path(path):
            if self.analyst.classifier.belongs_to_service(each, tree=tree):
                why = f"{display_text(each)} is a socket or a lock of a service, or holds one"
                self.mark("service-change", why)

    def _losses(self, path: str, recursive: bool) -> None:
        classifier = self.analyst.classifier
        worst = paths.with_unknown_emptied(path) if UNTRUSTED_UNKNOWN.search(path) else path
        if classifier.is_own_file(path, tree=recursive or LIVE_GLOB.search(path) is not None):
            self.own(path)
        if paths.is_block_device(path):
            self.wipe(f"{display_text(path)} is a device")
        wide = recursive or LIVE_GLOB.search(path) is not None
        if wide and classifier.is_system_tree(worst):
            if UNTRUSTED_UNKNOWN.search(path):
                self.irreversible(f"with an empty variable {display_text(path)} is {worst}")
            else:
                self.wipe(f"{display_text(path)} is a tree of the system")
        if classifier.is_precious(worst) or (recursive and not classifier.is_temporary_path(path)):
            self.irreversible(f"what is lost in {display_text(path)} does not come back")

    def wipe(self, why: str) -> None:
        self.mark("wipe", why)
        self.irreversible(why)

    def own(self, path: str) -> None:
        self.mark("self-change", f"{display_text(path)} is one of our own files")
        self.irreversible(f"{display_text(path)} is one of our own files")

    def own_below(self, path: str) -> None:
        shown = display_text(path)
        why = f"our own files are below {shown}: name a folder beside them"
        self.mark("self-change", why)
        self.irreversible(why)

    def result(self) -> SimpleCommand:
        effects = self.effects or {"read": f"{self.program or 'the shell'} only looks"}
        return SimpleCommand(
            program=display_text(self.program),
            argv=tuple(map(display_text, self.argv)),
            flags=tuple(map(display_text, self.flags)),
            paths=tuple(dict.fromkeys(map(display_text, self.paths))),
            changes=tuple(dict.fromkeys(map(display_text, self.changes))),
            repositories=tuple(dict.fromkeys(map(display_text, self.repositories))),
            effects=frozenset(effects),
            via=tuple(map(display_text, self.via)),
            folder=display_text(self.scope.cwd) if self.via else "",
            node=self.node,
            why=tuple(f"{effect}: {why}" for effect, why in effects.items()),
            target=self.target,
            captured=self.analyst.captures > 0,
        )


_PRIVILEGE_FILES = (
    "/etc/sudoers", "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/cron",
    "/var/spool/cron", "/etc/systemd", "/lib/systemd", "/usr/lib/systemd", "/etc/ld.so",
    "/etc/profile", "/etc/bash", "/etc/environment", "/etc/pam.d", "/etc/init.d", "/etc/rc",
    "/etc/ssh/", "/etc/security", "/etc/apt/", "/etc/polkit-1", "/etc/udev", "/etc/modprobe",
    ".ssh/authorized_keys", ".ssh/config", ".bashrc", ".bash_profile", ".profile", ".zshrc",
    ".bash_login", ".bash_aliases", ".gitconfig", ".git/hooks/", ".git/config", ".config/autostart",
    ".husky/", ".githooks/", ".git-hooks/", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml",
    "lefthook.y", ".lefthook.y", ".overcommit.yml",
    "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/bin/", "/sbin/", ".vimrc", ".inputrc",
)  # fmt: skip


def replace_target(target: CommandTarget, where: dict[str, str]) -> CommandTarget:
    known = {name: getattr(target, name) for name in target.__struct_fields__}
    return CommandTarget(**{**known, **where})


_VERSIONED_PROGRAM = re.compile(
    r"(python|pypy|perl|ruby|php|lua|node|nodejs|pip|gcc|g\+\+|clang|java|bash|ksh|zsh|tclsh|wish"
    r"|guile|psql|pg_dump|vim|gdb|clickhouse|scala|irb|gem|erl|julia|R|octave|luajit|idle|pydoc)"
    r"[-.]?\d[\d.]*[a-z]?\Z"
)


def program_name(call: ProgramCall) -> str:
    """The program's plain name; marks the call when the program is unknown."""
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
    classifier = call.analyst.classifier
    if path.startswith("/etc/init.d/") and dirname(path) == "/etc/init.d":
        call.argv = ["service", basename(path), *call.argv[1:]]
        return "service"
    real = classifier.real_path(path)
    if classifier.is_trusted_folder(dirname(path)):
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
    """The text contains more commands than a person would review."""


class ScriptWalk(Protocol):
    """The analysis of one shell text."""

    text: bytes

    def statement(self, node: Node, scope: ShellScope, stdin: str | None) -> str:
        """Analyses a statement; returns its output, if known."""
        ...

    def children(self, node: Node) -> list[Node]: ...
    def fields(self, node: Node, scope: ShellScope) -> WordFields: ...
    def value(self, node: Node, scope: ShellScope) -> str: ...
    def body(self, node: Node, scope: ShellScope) -> str: ...
    def substitutions(self, node: Node, scope: ShellScope) -> list[str]:
        """Analyses every substitution below a node; returns their outputs."""
        ...

    def arithmetic(self, node: Node, scope: ShellScope) -> None:
        """Analyses a node whose text the shell evaluates as arithmetic."""
        ...

    def call(self, node: Node, scope: ShellScope) -> ProgramCall:
        """A new call at a node of the text, with the context of the text."""
        ...

    def run(self, call: ProgramCall) -> str:
        """Analyses a command and keeps the result."""
        ...

    def keep(self, call: ProgramCall) -> None:
        """Keeps the result of a call."""
        ...


NodeHandler = Callable[[ScriptWalk, Node, ShellScope, str | None], str]
