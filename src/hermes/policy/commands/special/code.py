"""Interpreters. Code is not understood here, except Python that plainly only computes."""

import ast

from hermes.policy.commands.calls import Call
from hermes.policy.commands.generic import by_table
from hermes.policy.commands.marks import ANY, literal, settled, shown
from hermes.policy.commands.options import Grammar, split
from hermes.policy.commands.tables import Program
from hermes.policy.commands.values import word_set

_MODULES = {
    "json": {"load", "loads", "dumps", "dump", "JSONDecodeError"},
    "sys": {"stdin", "argv", "stdout", "version", "version_info", "exit", "maxsize", "platform"},
    "datetime": {
        "datetime",
        "timedelta",
        "timezone",
        "date",
        "utcnow",
        "now",
        "fromtimestamp",
        "utcfromtimestamp",
    },
    "time": {"time", "strftime", "gmtime", "localtime", "ctime", "mktime", "strptime"},
    "math": {"sqrt", "log", "log2", "log10", "ceil", "floor", "pi", "pow"},
    "re": {"findall", "search", "match", "sub", "split", "compile"},
    "collections": {"Counter", "OrderedDict", "defaultdict"},
    "statistics": {"mean", "median", "stdev", "quantiles"},
    "base64": {"b64decode", "b64encode", "urlsafe_b64decode"},
    "hashlib": {"sha256", "md5", "sha1"},
    "uuid": {"uuid4"},
    "platform": {"python_version", "platform", "node", "system", "release"},
    "socket": {"gethostname", "getfqdn"},
    "ipaddress": {"ip_address", "ip_network"},
    "urllib.parse": {"quote", "unquote", "urlparse", "parse_qs", "urlencode"},
}
_NAMES = word_set(
    "print len sum min max sorted list dict set tuple str int float bool range enumerate zip map"
    " any all abs round repr ord chr hex bin reversed filter isinstance True False None"
)
_METHODS = word_set(
    "get items keys values append join split strip lstrip rstrip startswith endswith format replace"
    " lower upper read readlines readline most_common isoformat strftime total_seconds timestamp"
    " decode encode hexdigest splitlines count index title zfill group groups extend update pop"
    " datetime now utcnow fromtimestamp utcfromtimestamp add sort write"
)
_NODES = (
    ast.Module, ast.Expr, ast.Assign, ast.Constant, ast.Name, ast.Load, ast.Store, ast.Call,
    ast.Attribute, ast.Subscript, ast.Slice, ast.List, ast.Dict, ast.Tuple, ast.Set, ast.For,
    ast.If, ast.IfExp, ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.ListComp, ast.DictComp,
    ast.SetComp, ast.GeneratorExp, ast.comprehension, ast.Import, ast.ImportFrom, ast.alias,
    ast.JoinedStr, ast.FormattedValue, ast.keyword, ast.operator, ast.cmpop, ast.boolop,
    ast.unaryop, ast.expr_context, ast.Starred, ast.Lambda, ast.arguments, ast.arg, ast.Pass,
    ast.Continue, ast.Break, ast.AugAssign,
)  # fmt: skip


def harmless(code: str) -> bool:
    """Python that only computes and prints: every name, module and method is a known good one."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and _stores(node)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and not _import(node, modules, own):
            return False
    if own & (_NAMES | modules.keys()):
        return False
    return all(_allowed(node, modules, own) for node in ast.walk(tree))


def _stores(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _import(node: ast.Import | ast.ImportFrom, modules: dict[str, str], own: set[str]) -> bool:
    if isinstance(node, ast.ImportFrom):
        allowed = _MODULES.get(node.module or "", set())
        own |= {alias.asname or alias.name for alias in node.names}
        return all(alias.name in allowed for alias in node.names)
    for alias in node.names:
        if alias.name not in _MODULES:
            return False
        modules[alias.asname or alias.name] = alias.name
    return True


def _allowed(node: ast.AST, modules: dict[str, str], own: set[str]) -> bool:
    if not isinstance(node, _NODES):
        return False
    if isinstance(node, ast.Name):
        return node.id in _NAMES or node.id in own or node.id in modules or node.id == "urllib"
    if isinstance(node, ast.Attribute):
        return _attribute(node, modules)
    return True


def _attribute(node: ast.Attribute, modules: dict[str, str]) -> bool:
    owner = ast.unparse(node.value)
    if owner in modules:
        return node.attr in _MODULES[modules[owner]]
    if owner == "urllib":
        return node.attr == "parse" and "urllib.parse" in modules
    return node.attr in _METHODS and (node.attr != "write" or owner == "sys.stdout")


_MODULE_READS = frozenset(
    {"json.tool", "this", "platform", "sysconfig", "calendar", "site", "base64"}
)


def python(call: Call, entry: Program) -> str:
    words = call.argv[1:]
    found = split(words, Grammar(entry.grammar.values, stops=0))
    call.flags = tuple(found.names())
    code = found.value("-c")
    module = found.value("-m")
    if code is not None:
        return _inline(call, code)
    if module is not None:
        return _module(call, module, words[words.index("-m") + 2 :] if "-m" in words else [])
    if found.has("-V", "--version", "-h", "--help", "-VV") and not found.rest:
        call.mark("read", "tells about itself")
        return ANY
    by_table(call, entry)
    if not found.rest or found.rest[0] == "-":
        call.dynamic(f"{call.program} runs whatever it is given as input")
    return ANY


def _inline(call: Call, code: str) -> str:
    if settled(code) and harmless(literal(code)):
        call.mark("read", "Python that only computes")
        return ANY
    call.dynamic("code for an interpreter is not read here")
    if call.analyst.places.mentions_ours(code):
        call.own(code)
    return ANY


def _module(call: Call, module: str, rest: list[str]) -> str:
    if module in ("pip", "ansible", "awscli"):
        return call.run([module, *rest])
    if module in _MODULE_READS and len(rest) < 2:
        call.mark("read", f"python -m {module}")
        for word in rest:
            call.reads(word)
        return ANY
    if module == "http.server":
        call.mark("network-out", "serves files to others")
    call.dynamic(f"python -m {shown(module)} runs a module")
    return ANY


def calculator(call: Call, entry: Program) -> str:
    """dc: `!` runs a command."""
    by_table(call, entry)
    texts = [*call.argv[1:], call.stdin or ""]
    if any("!" in text or not settled(text) for text in texts):
        call.dynamic("dc runs commands after a !")
    return ANY
