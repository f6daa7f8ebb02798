"""One command while it is being judged: what it is, and what was found out about it so far."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from hermes.policy.commands import paths
from hermes.policy.commands.hosts import LOCAL
from hermes.policy.commands.marks import FOREIGN, GLOB, settled, shown
from hermes.policy.commands.paths import Places
from hermes.policy.commands.scope import Scope
from hermes.policy.commands.values import SimpleCommand, Target


class Analyst(Protocol):
    """Who reads nested commands; the walker, seen from below."""

    places: Places
    kept: int
    """How many commands were judged and written down so far."""

    def run(self, call: "Call") -> str:
        """Judge a command given by its words; gives what it would print."""
        ...

    def shell(self, call: "Call", text: str, scope: Scope) -> str:
        """Judge a shell text that this command would run."""
        ...


@dataclass
class Call:
    """A program, its words and its surroundings; findings are added as they are made."""

    analyst: Analyst
    argv: list[str]
    scope: Scope
    stdin: str | None = None
    """What is piped in, as far as it is known; None when nothing is."""
    doubtful: bool = False
    """Some word has another value when a variable is set."""
    disputed: bool = False
    """The program itself has another name when a variable is set."""
    via: tuple[str, ...] = ()
    node: tuple[int, int] = (0, 0)
    target: Target = field(default_factory=Target)
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
        self, argv: list[str], *, stdin: str | None = None, scope: Scope | None = None
    ) -> "Call":
        """A command that this one runs, and to which its own effects stick."""
        self.peeled = (self.peeled or frozenset()) | frozenset(self.effects)
        return Call(
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

    def shell(self, text: str, *, scope: Scope | None = None, stdin: str | None = None) -> str:
        """Peel: judge the shell text that this one runs."""
        before, peeled = self.analyst.kept, self.peeled
        call = self.child([], stdin=stdin)
        if not settled(text) and FOREIGN.search(text):
            call.dynamic("part of what it hands to a shell is only known at run time")
        printed = self.analyst.shell(call, text, scope or self.scope)
        if self.analyst.kept == before:
            self.peeled = peeled
        return printed

    def aim(self, **where: str) -> None:
        """Note what a wrapper or verb names as its target."""
        self.target = replace_target(self.target, {key: shown(one) for key, one in where.items()})

    def path(self, word: str) -> str:
        return paths.resolve(word, self.scope.cwd)

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
        if paths.network(path):
            # Opened for reading it sends nothing, and whether a port answers is a fair question.
            near = not FOREIGN.search(path) and LOCAL.match(path.split("/")[3:4][0])
            self.mark(
                "network-local" if near else "network-out", f"{shown(path)} is a network connection"
            )
        for place in self.analyst.places.both(path):
            if self.analyst.places.secret(place):
                self.mark("secret-read", f"{shown(place)} holds secrets")

    def writes(self, word: str, why: str = "") -> None:
        path = self.names(word)
        if paths.nowhere(path) or path == self.scope.cwd + "/-":
            return
        reason = why or f"writes {shown(path)}"
        for place in self.analyst.places.both(path):
            self._dangers(place, reason)
        self.changes += self.analyst.places.both(path)
        self._aliased(path)
        self.mark("write", reason)

    def _aliased(self, path: str) -> None:
        """A file that can be reached by another name is not only what its path says."""
        if self.analyst.places.has_other_names(path):
            self.mark("unknown", f"{shown(path)} has another name, whose file would change, too")
        for folder in self.scope.unpacked:
            if path.startswith(f"{folder}/"):
                self.mark(
                    "unknown", f"{shown(path)} may lead elsewhere by a link that was unpacked"
                )

    def _dangers(self, path: str, reason: str) -> None:
        places = self.analyst.places
        if paths.device(path):
            self.wipe(f"{shown(path)} is a block device or memory")
        if places.vital(path):
            self.irreversible(f"nothing works without {shown(path)}")
        if paths.network(path):
            self.mark("network-out", f"{shown(path)} is a network connection")
        if paths.kernel(path):
            self.mark("service-change", f"{shown(path)} is a switch of the kernel")
        if places.ours(path):
            self.own(path)
        if any(path.startswith(one) or f"/{one}" in path for one in _POWERS):
            self.mark("privilege", f"{shown(path)} decides what may run, or as whom")

    def deletes(self, word: str, *, recursive: bool = False, why: str = "") -> None:
        path = self.names(word)
        if paths.nowhere(path):
            return
        self.changes += self.analyst.places.both(path)
        self.mark("delete", why or f"removes {shown(path)}")
        if self.analyst.places.is_socket(path):
            self.mark("service-change", f"{shown(path)} is a socket that a service listens on")
        for place in self.analyst.places.both(path):
            self._losses(place, recursive)

    def _losses(self, path: str, recursive: bool) -> None:
        places = self.analyst.places
        worst = paths.emptied(path) if FOREIGN.search(path) else path
        if places.ours(path, tree=recursive or GLOB.search(path) is not None):
            self.own(path)
        if paths.device(path):
            self.wipe(f"{shown(path)} is a device")
        wide = recursive or GLOB.search(path) is not None
        if wide and places.sacred(worst):
            if FOREIGN.search(path):
                self.irreversible(f"with an empty variable {shown(path)} is {worst}")
            else:
                self.wipe(f"{shown(path)} is a tree of the system")
        if places.dear(worst) or (recursive and not places.passing(path)):
            self.irreversible(f"what is lost in {shown(path)} does not come back")

    def wipe(self, why: str) -> None:
        self.mark("wipe", why)
        self.irreversible(why)

    def own(self, path: str) -> None:
        self.mark("self-change", f"{shown(path)} is one of our own files")
        self.irreversible(f"{shown(path)} is one of our own files")

    def result(self) -> SimpleCommand:
        effects = self.effects or {"read": f"{self.program} only looks"}
        return SimpleCommand(
            program=shown(self.program),
            argv=tuple(map(shown, self.argv)),
            flags=tuple(map(shown, self.flags)),
            paths=tuple(dict.fromkeys(map(shown, self.paths))),
            changes=tuple(dict.fromkeys(map(shown, self.changes))),
            repositories=tuple(dict.fromkeys(map(shown, self.repositories))),
            effects=frozenset(effects),
            via=tuple(map(shown, self.via)),
            node=self.node,
            why=tuple(f"{effect}: {why}" for effect, why in effects.items()),
            target=self.target,
        )


_POWERS = (
    "/etc/sudoers", "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/cron",
    "/var/spool/cron", "/etc/systemd", "/lib/systemd", "/usr/lib/systemd", "/etc/ld.so",
    "/etc/profile", "/etc/bash", "/etc/environment", "/etc/pam.d", "/etc/init.d", "/etc/rc",
    "/etc/ssh/", "/etc/security", "/etc/apt/", "/etc/polkit-1", "/etc/udev", "/etc/modprobe",
    ".ssh/authorized_keys", ".ssh/config", ".bashrc", ".bash_profile", ".profile", ".zshrc",
    ".bash_login", ".bash_aliases", ".gitconfig", ".git/hooks/", ".git/config", ".config/autostart",
    "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/bin/", "/sbin/", ".vimrc", ".inputrc",
)  # fmt: skip


def replace_target(target: Target, where: dict[str, str]) -> Target:
    known = {name: getattr(target, name) for name in target.__struct_fields__}
    return Target(**{**known, **where})


Handler = Callable[[Call], str | None]
