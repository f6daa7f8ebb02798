"""Variables that a command sets: remembered, and looked at for those that decide what runs."""

import re

from hermes.policy.commands import paths
from hermes.policy.commands.arithmetic import unknown_operand
from hermes.policy.commands.calls import Call
from hermes.policy.commands.marks import ANY, MAYBE, NAME, foreign, shown
from hermes.policy.commands.scope import Bound, Scope
from hermes.policy.commands.syntax import Misread, Node
from hermes.policy.commands.tables import decides_code, lists
from hermes.policy.commands.walking import Walk

_LENGTH = 4000
"""Beyond this nobody reads along; and a=$b$b, b=$a$a, … would double without end."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_CODE = re.compile(r"\$\(|`|\$\{.*@P\}")
_REMOTE = re.compile(r"\w+://(?!(?:localhost|127\.|\[::1\]))")
_PATH = re.compile(r"(?:^|(?<=[:=,\s]))(?:~|\.{1,2})?/[^\s:,]*")


def read(walk: Walk, node: Node, scope: Scope) -> tuple[str, Bound]:
    """Name and value of `name=value`, `name+=value` or `name=(…)`."""
    found = walk.children(node)
    if found[0].type != "variable_name":
        walk.substitutions(node, scope)
        text = walk.text[found[0].start_byte : found[0].end_byte].decode("utf-8", "replace")
        name, _, index = text.partition("[")
        unknown = "" if name in scope.associative else unknown_operand(index.rstrip("]"), scope)
        if unknown:
            call = walk.call(node, scope)
            call.dynamic(f"a subscript of {unknown}, which the shell would run as code")
            walk.keep(call)
        return name, ANY
    name = walk.text[found[0].start_byte : found[0].end_byte].decode("utf-8", "replace")
    if not _NAME.match(name):
        raise Misread("an assignment to what is no variable")
    if len(found) < 3:
        return name, ""
    if found[-1].start_byte != found[1].end_byte or len(found) > 3:
        raise Misread("an assignment in several pieces")
    value: Bound
    if found[2].type == "array":
        inner = [child for child in walk.children(found[2]) if child.type not in "()"]
        value = tuple(word for child in inner for word in walk.fields(child, scope).words)
    else:
        value = walk.value(found[2], scope)
    value = _added(scope, name, value) if found[1].type == "+=" else value
    if sum(map(len, _many(value))) > _LENGTH:
        raise Misread(f"a variable of more than {_LENGTH} characters")
    return name, value


def _added(scope: Scope, name: str, value: Bound) -> Bound:
    before = scope.value(name)
    if before is None:
        return ANY
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    return (*_many(before), *_many(value))


def _many(value: Bound) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,)


def check(call: Call, name: str, value: Bound) -> None:
    """Mark what setting a variable does beyond remembering it."""
    if decides_code(name) and not _harmless(call, name, value):
        call.dynamic(f"{name} decides which code runs")
    for text in _many(value):
        if _CODE.search(text):
            call.dynamic(f"{name} holds shell code, which arithmetic and prompts would run")
        if text[:1] in "/~" and call.analyst.places.secret(call.path(text)):
            call.mark("secret-read", f"{name} names {shown(text)}, which holds secrets")


def check_exported(call: Call, name: str, value: Bound) -> None:
    """A variable that programs will see: unknown names may choose code by naming a file or a host.

    The names that are known to do so are in the tables; this is for those that nobody listed.
    """
    if decides_code(name) or harmless_name(name):
        return
    if name.endswith(tuple(lists()["exported_variables"])):
        call.dynamic(f"{name} may decide which code a program runs, or where it connects")
    for text in _many(value):
        if foreign(text):
            call.dynamic(f"{name} is handed to programs, with a value only known at run time")
        elif _REMOTE.search(text) or any(
            call.analyst.places.writable(call.path(path)) for path in _PATH.findall(text)
        ):
            call.dynamic(f"{name} hands {shown(text)} to programs that may run or obey it")


def check_name(call: Call, name: str) -> None:
    """The name of a variable that a builtin sets; its subscript is evaluated."""
    if foreign(name):
        call.dynamic("the name of the variable is only known at run time, and may hold code")


def harmless_name(name: str) -> bool:
    """Whether it is known to change nothing but language, time zone, width or verbosity."""
    return any(
        name == one or (one.endswith("*") and name.startswith(one[:-1]))
        for one in lists()["harmless_variables"]
    )


def exports(words: list[str]) -> bool:
    """Whether options of `declare` make the variable visible to programs."""
    return any(word.startswith("-") and "x" in word for word in words[1:])


def bind(call: Call, name: str, value: Bound) -> None:
    """What a builtin such as `read` puts into a variable."""
    check_name(call, name)
    check(call, name, value)
    call.scope.variables[name] = value


def _harmless(call: Call, name: str, value: Bound) -> bool:
    if not isinstance(value, str):
        return False
    if name == "PATH":
        folders = value.replace(MAYBE, "").split(":")
        return all(one == NAME or call.analyst.places.trusted_folder(one) for one in folders)
    if name == "KUBECONFIG":
        # A file in a folder that anybody may write to can name a program that gets the credentials.
        return not foreign(value) and not paths.temporary(call.path(value))
    quiet = {"PAGER", "GIT_PAGER", "SYSTEMD_PAGER", "MANPAGER", "AWS_PAGER", "KUBECTL_PAGER"}
    return name in quiet and value in ("", "cat", "less", "/bin/cat") and not foreign(value)
