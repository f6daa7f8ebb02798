"""Judges a whole shell text: walks its pages, resolves programs, gathers what was found."""

from hermes.policy.commands.calls import Call
from hermes.policy.commands.judge import judge
from hermes.policy.commands.marks import ANY, source
from hermes.policy.commands.page import Page
from hermes.policy.commands.paths import Places
from hermes.policy.commands.programs import name_of
from hermes.policy.commands.scope import Scope
from hermes.policy.commands.softening import soften
from hermes.policy.commands.syntax import Misread, Node
from hermes.policy.commands.values import PLAIN, SimpleCommand
from hermes.policy.commands.walking import TooMuch

COMMANDS = 200
"""More than this many in one text are not read on, they are asked about."""
_WORDS = 6000
_NESTING = 10


class Walker:
    """Fulfils `Analyst` for the judges and `Keeper` for the pages."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.found: dict[SimpleCommand, None] = {}
        self.problems: dict[str, None] = {}
        self.steps = 0
        self.words = 0
        self.nesting = 0
        self.kept = 0

    def start(self, text: bytes, scope: Scope) -> None:
        def around(node: Node, inner: Scope) -> Call:
            self._step()
            return Call(self, [], inner, node=(node.start_byte, node.end_byte))

        Page(text, self, around).walk(scope, None)

    def problem(self, why: str) -> None:
        self.problems.setdefault(why)

    def shell(self, call: Call, text: str, scope: Scope) -> str:
        """A text that a command hands to a shell, read in that shell's state."""
        if self.nesting >= _NESTING:
            raise TooMuch("shells within shells")
        self.nesting += 1
        try:
            return self._page(call, source(text)).walk(scope, call.stdin)
        except Misread as lost:
            self.problem(str(lost))
            return ANY
        finally:
            self.nesting -= 1

    def _page(self, call: Call, text: str) -> Page:
        def around(node: Node, inner: Scope) -> Call:
            self._step()
            return Call(
                self,
                [],
                inner,
                via=call.via,
                node=call.node,
                target=call.target,
                effects=dict(call.effects),
                borrowed=call.borrowed,
                guarded=call.guarded,
            )

        return Page(text.encode("utf-8", "surrogateescape"), self, around)

    def run(self, call: Call) -> str:
        if call.via:
            self._step()
        self.words += len(call.argv)
        if self.words > _WORDS:
            raise TooMuch(f"more than {_WORDS} words in all")
        word = call.argv[0]
        if word in call.scope.aliases:
            return self._alias(call, call.scope.aliases[word])
        if word in call.scope.functions:
            return self._function(call, word)
        call.program = name_of(call)
        printed = judge(call)
        self.keep(call)
        return printed

    def _step(self) -> None:
        self.steps += 1
        if self.steps > COMMANDS:
            raise TooMuch(f"more than {COMMANDS} commands")

    def _alias(self, call: Call, text: str) -> str:
        scope = call.scope.copy()
        del scope.aliases[call.argv[0]]
        rest = " ".join("'" + word.replace("'", "'\\''") + "'" for word in call.argv[1:])
        return self.shell(call, f"{text} {rest}", scope)

    def _function(self, call: Call, name: str) -> str:
        if name in call.scope.calls:
            call.program = name
            if call.scope.multiplying:
                call.mark("fork-bomb", f"{name} starts itself again and again")
                call.irreversible(f"{name} starts itself again and again")
            else:
                call.dynamic(f"{name} calls itself")
            self.keep(call)
            return ANY
        if name in call.scope.wavering:
            call.program = name
            call.dynamic(f"{name} is a function only if a condition held")
            self.keep(call)
        inner = call.scope.copy()
        inner.arguments = tuple(call.argv)
        inner.calls = (*inner.calls, name)
        return call.scope.functions[name](inner, call.stdin)

    def keep(self, call: Call) -> None:
        """Write down what was found, unless it all stuck to the commands that were run."""
        if call.peeled is not None and frozenset(call.effects) - {"read"} <= call.peeled:
            return
        self._check_own(call)
        soften(call)
        if call.argv or call.effects:
            self.kept += 1
            self.found.setdefault(call.result())

    def _check_own(self, call: Call) -> None:
        """Our own files, named by a command that changes things in a way no table describes."""
        if not self.places.own or frozenset(call.effects) <= PLAIN:
            return
        vague = {"unknown", "exec-dynamic"} & call.effects.keys()
        if vague and any(self.places.mentions_ours(word) for word in call.argv):
            call.own(next(word for word in call.argv if self.places.mentions_ours(word)))
        elif not call.changes and any(self.places.ours(path) for path in call.paths):
            call.own(next(path for path in call.paths if self.places.ours(path)))
        elif not call.changes and self.places.ours(call.scope.cwd):
            call.own(call.scope.cwd)
