"""Interpreters. Only simple code is analysed: Python that computes, filters in Perl and jq."""

import ast
import re

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    SYSTEM_NAME,
    display_text,
    is_fully_known,
    literal_text,
)
from hermes.policy.commands.tables import OptionGrammar, ProgramEntry, parse_arguments
from hermes.policy.programs.table_effects import apply_table

_HARMLESS_MODULES = {
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
_HARMLESS_NAMES = word_set(
    "print len sum min max sorted list dict set tuple str int float bool range enumerate zip map"
    " any all abs round repr ord chr hex bin reversed filter isinstance True False None"
)
_HARMLESS_METHODS = word_set(
    "get items keys values append join split strip lstrip rstrip startswith endswith format replace"
    " lower upper read readlines readline most_common isoformat strftime total_seconds timestamp"
    " decode encode hexdigest splitlines count index title zfill group groups extend update pop"
    " datetime now utcnow fromtimestamp utcfromtimestamp add sort write"
)
_HARMLESS_NODES = (
    ast.Module, ast.Expr, ast.Assign, ast.Constant, ast.Name, ast.Load, ast.Store, ast.Call,
    ast.Attribute, ast.Subscript, ast.Slice, ast.List, ast.Dict, ast.Tuple, ast.Set, ast.For,
    ast.If, ast.IfExp, ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.ListComp, ast.DictComp,
    ast.SetComp, ast.GeneratorExp, ast.comprehension, ast.Import, ast.ImportFrom, ast.alias,
    ast.JoinedStr, ast.FormattedValue, ast.keyword, ast.operator, ast.cmpop, ast.boolop,
    ast.unaryop, ast.expr_context, ast.Starred, ast.Lambda, ast.arguments, ast.arg, ast.Pass,
    ast.Continue, ast.Break, ast.AugAssign,
)  # fmt: skip


def is_harmless_python(code: str) -> bool:
    """Python that only computes and prints: every name, module and method is in a list."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and _is_store(node)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and not _is_harmless_import(
            node, modules, own
        ):
            return False
    if own & (_HARMLESS_NAMES | modules.keys()):
        return False
    return all(_is_harmless_node(node, modules, own) for node in ast.walk(tree))


def _is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _is_harmless_import(
    node: ast.Import | ast.ImportFrom, modules: dict[str, str], own: set[str]
) -> bool:
    if isinstance(node, ast.ImportFrom):
        allowed = _HARMLESS_MODULES.get(node.module or "", set())
        own |= {alias.asname or alias.name for alias in node.names}
        return all(alias.name in allowed for alias in node.names)
    for alias in node.names:
        if alias.name not in _HARMLESS_MODULES:
            return False
        modules[alias.asname or alias.name] = alias.name
    return True


def _is_harmless_node(node: ast.AST, modules: dict[str, str], own: set[str]) -> bool:
    if not isinstance(node, _HARMLESS_NODES):
        return False
    if isinstance(node, ast.Name):
        return (
            node.id in _HARMLESS_NAMES
            or node.id in own
            or node.id in modules
            or node.id == "urllib"
        )
    if isinstance(node, ast.Attribute):
        return _is_harmless_attribute(node, modules)
    return True


def _is_harmless_attribute(node: ast.Attribute, modules: dict[str, str]) -> bool:
    owner = ast.unparse(node.value)
    if owner in modules:
        return node.attr in _HARMLESS_MODULES[modules[owner]]
    if owner == "urllib":
        return node.attr == "parse" and "urllib.parse" in modules
    return node.attr in _HARMLESS_METHODS and (node.attr != "write" or owner == "sys.stdout")


_READ_ONLY_MODULES = frozenset(
    {"json.tool", "this", "platform", "sysconfig", "calendar", "site", "base64"}
)


def python(call: ProgramCall, entry: ProgramEntry) -> str:
    words = call.argv[1:]
    found = parse_arguments(words, OptionGrammar(entry.grammar.values, stops=0))
    call.flags = tuple(found.names())
    code = found.value("-c")
    module = found.value("-m")
    if found.has("-i"):
        call.dynamic(f"{call.program} -i runs whatever it is given as input")
    if code is not None:
        return _judge_inline_code(call, code)
    if module is not None:
        return _judge_module(call, module, words[words.index("-m") + 2 :] if "-m" in words else [])
    if found.has("-V", "--version", "-h", "--help", "-VV") and not found.rest:
        call.mark("read", "tells about itself")
        return ANY_WORD
    apply_table(call, entry)
    if not found.rest or found.rest[0] == "-":
        call.dynamic(f"{call.program} runs whatever it is given as input")
    return ANY_WORD


def _judge_inline_code(call: ProgramCall, code: str) -> str:
    if is_fully_known(code) and is_harmless_python(literal_text(code)):
        call.mark("read", "Python that only computes")
        return ANY_WORD
    call.dynamic("code for an interpreter is not read here")
    if call.analyst.classifier.mentions_own_file(code):
        call.own(code)
    return ANY_WORD


def _judge_module(call: ProgramCall, module: str, rest: list[str]) -> str:
    if module in ("pip", "ansible", "awscli"):
        return call.run([module, *rest])
    if module in _READ_ONLY_MODULES and len(rest) < 2:
        call.mark("read", f"python -m {module}")
        for word in rest:
            call.reads(word)
        return ANY_WORD
    if module == "http.server":
        call.mark("network-out", "serves files to others")
    call.dynamic(f"python -m {display_text(module)} runs a module")
    return ANY_WORD


def dc(call: ProgramCall, entry: ProgramEntry) -> str:
    """dc: `!` runs a command."""
    apply_table(call, entry)
    texts = [*call.argv[1:], call.stdin or ""]
    if any("!" in text or not is_fully_known(text) for text in texts):
        call.dynamic("dc runs commands after a !")
    return ANY_WORD


_STRING_LITERAL = r"""(?:'[^'\\]*'|"[^"\\$#@`]*")"""
_CONSTANT = rf"(?:{_STRING_LITERAL}|[\d\s()+*.%-]+|%s)"
_PRINT_PATTERNS = {
    "node": (r"console\.log\((?:{c}(?:,\s*{c})*)?\)", r"process\.(?:versions?(?:\.\w+)?|arch)"),
    "ruby": (r"(?:puts|print|p)[ (]\s*{c}\)?", r"RUBY_(?:VERSION|PLATFORM)"),
    "php": (r"(?:echo|print)[ (]\s*{c}(?:\s*\.\s*{c})*\)?", r"PHP_(?:VERSION|OS|EOL)"),
    "lua": (r"print\s*\(?\s*{c}\)?", r"_VERSION"),
    "perl": (r"(?:print|say)[ (]\s*{c}\)?", r"\$\]|\$\^V"),
}  # fmt: skip
_PRINT_PATTERNS["nodejs"] = _PRINT_PATTERNS["node"]
_CODE_OPTIONS = {"node": ("-e", "-p", "-pe"), "nodejs": ("-e", "-p"), "php": ("-r",)}


def one_liner(call: ProgramCall, entry: ProgramEntry) -> str:
    """`node -e`, `ruby -e`, `php -r`, `lua -e`, and Perl as a filter like sed."""
    words = call.argv[1:]
    if _only_prints(call.program, words) or (call.program == "perl" and _only_filters(words)):
        call.mark("read", f"{call.program} only computes and prints")
        for word in words:
            if word[:1] in "/~." and SYSTEM_NAME not in word:
                call.reads(word)
        return ANY_WORD
    return apply_table(call, entry) or ANY_WORD


def _only_prints(program: str, words: list[str]) -> bool:
    if (
        len(words) != 2
        or words[0] not in _CODE_OPTIONS.get(program, ("-e",))
        or not is_fully_known(words[1])
    ):
        return False
    shape, more = _PRINT_PATTERNS.get(program, ("(?!)", ""))
    constant = _CONSTANT.replace("%s", more) if more else _CONSTANT
    whole = constant if "p" in words[0] else shape.replace("{c}", constant)
    return re.fullmatch(whole, literal_text(words[1]).strip().rstrip(";").strip()) is not None


_PERL_OPTIONS = re.compile(
    r"-(?:[nplaw]|0[0-7]{0,3})*(?:F(?:[:;,|\t]|\\t|\\s\+?|/[:;,\s]\+?/)|e|E)?"
)
_PERL_FILE = re.compile(rf"[\w.~/{SYSTEM_NAME}+:@%-]*\w")


def _only_filters(words: list[str]) -> bool:
    """Only options that loop and split, code that reads, and plain files."""
    code, files, at = [], [], 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        at += 1
        letters = _PERL_OPTIONS.fullmatch(word)
        if not letters:
            return False
        if word[-1] in "eE" and "F" not in word:
            code.append(words[at] if at < len(words) else "(")
            at += 1
    files = words[at:]
    # Perl runs a file name that ends in | as a command; < and > are redirections.
    fine = all(_PERL_FILE.fullmatch(literal_text(word)) for word in files)
    return (
        fine
        and bool(code)
        and all(is_fully_known(one) for one in code)
        and _only_reads("\n".join(code))
    )


_PERL_WORDS = word_set(
    "print printf say if unless else elsif and or not next last for foreach while my split join"
    " length substr lc uc ucfirst sprintf scalar keys values sort reverse chomp BEGIN END eq ne lt"
    " gt le ge x push shift pop defined exists delete int hex oct abs sqrt index rindex STDOUT"
    " STDERR undef local exit cmp map grep"
)
_PERL_HIDDEN_VARIABLES = word_set("ENV ARGV INC SIG ARGVOUT DATA")
_PERL_PATTERN = r"(?:[^/\\@$(\n]|\\.|\((?!\?\??\{|\?\#|\*)|\$(?=[)|/]))*"
_PERL_REPLACEMENT = r"(?:[^/\\@$`\n]|\\.|\$[\d&])*"
_PERL_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<number>\d[\d_.]*)|(?P<quoted>'[^'\\]*')"
    rf'|(?P<double>"(?:[^"\\$@`]|\\[^NLUQElu]|\$(?:\d+|&|\.|[A-Za-z_]\w*|_)(?:\[-?\d+\])?(?![\[{{]|->))*")'
    rf"|(?P<change>s/{_PERL_PATTERN}/{_PERL_REPLACEMENT}/[gimsx]*|(?:tr|y)/[^/\\$@]*/[^/\\$@]*/[cdsr]*)(?!\w)"
    rf"|(?P<variable>\$#?(?:[A-Za-z_]\w*|\d+|[_&.,;/])|[@%][A-Za-z_]\w*)"
    rf"|(?P<word>[A-Za-z_]\w*)|(?P<match>m?/{_PERL_PATTERN}/[gimsx]*)(?!\w)"
    rf"|(?P<operator>=~|!~|<=>|<=|>=|==|!=|\+\+|--|&&|\|\||\.\.|[+*.,=-]=|[-+*%=>.,;:!(){{}}\[\]?<])"
)
_BEFORE_MATCH = word_set("( , if unless and or not && || ! =~ !~ { ; split grep") | {""}


def _only_reads(code: str) -> bool:
    if not re.search(r"\bprint|\bsay\b|\bs/|\btr/|\by/", code):
        return False  # no filter: it prints and substitutes nothing
    before, kind, at = "", "", 0
    while at < len(code):
        found = _PERL_TOKEN.match(code, at)
        if found is None or found.lastgroup is None:
            return False
        at, text = found.end(), found.group()
        if found.lastgroup == "space":
            continue
        if not _token_allowed(found.lastgroup, text, before, kind):
            return False
        before, kind = text, found.lastgroup
    return True


def _token_allowed(kind: str, text: str, before: str, previous: str) -> bool:
    if kind == "word":
        return text in _PERL_WORDS and before != "-"
    if kind == "variable":
        return text.lstrip("$@%#") not in _PERL_HIDDEN_VARIABLES
    if kind in ("match", "change"):
        return before in _BEFORE_MATCH or (kind == "change" and before == "}")
    if text == "<":
        return previous in ("variable", "number") or before in (")", "]")
    return True


_ENVIRONMENT_ACCESS = re.compile(r"\benv\b|\$ENV\b|\bstrenv\b|\benvsubst\b")
_LOAD_CALL = re.compile(r"\bload(?:_\w+)?\s*\(")


def json_filter(call: ProgramCall, entry: ProgramEntry) -> str:
    """jq and yq: a filter may print the environment; in yq it may read any file."""
    apply_table(call, entry)
    for word in map(literal_text, call.argv[1:]):
        if _ENVIRONMENT_ACCESS.search(word):
            call.mark("secret-read", "the filter prints variables of the environment")
        if call.program == "yq" and _LOAD_CALL.search(word):
            call.mark("secret-read", "the filter reads files of its own choice")
    return ANY_WORD
