"""Finds code that acts only at a certain time, on a certain machine, or when unobserved."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes.skills.scanner.deobfuscation import remove_case_patterns
from hermes.skills.scanner.finding import ScanFinding, line_number
from hermes.skills.scanner.literal_search import find_first
from hermes.skills.scanner.patterns import load_pattern
from hermes.skills.scanner.purpose import DeclaredPurpose
from hermes.skills.scanner.python.actions import find_python_actions
from hermes.skills.scanner.python.static_values import PythonModule, last_name, parse_python
from hermes.skills.scanner.shell_text import MAX_SCRIPT_CHARS, split_long_lines

_CLOCK_CALL = re.compile(
    r"\b(?:datetime|date|dt|time|pendulum|arrow|Timestamp|timezone|_?d)\b[\w.]*\."
    r"(?:now|today|utcnow|time|time_ns|localtime|gmtime|strftime|ctime|asctime)\(|"
    r"\b(?:now|today|utcnow|time_ns|localtime|gmtime)\(\)"
)
_YEAR_ACCESS = re.compile(r"\.year\b|tm_year|%[YyGjsU]|isocalendar|toordinal|isoformat|timetuple")
_DAY_ARITHMETIC = re.compile(r"86_?400|\b24 \* 3600\b|60 \* 60 \* 24")
_DATE_PART_ACCESS = re.compile(
    r"\.(?:month|day|hour|minute|weekday\(\)|isoweekday\(\)|tm_(?:mon|mday|wday|hour|yday))|%[mdHajw]"
)
_DATE_CONSTRUCTORS = {
    "datetime", "date", "fromisoformat", "strptime", "mktime", "Timestamp", "fromordinal",
    "fromtimestamp", "utcfromtimestamp",
}  # fmt: skip
_DATE_TEXT = re.compile(r"20[2-9]\d(?:[-/.]?[01]\d)?(?:[-/.]?[0-3]\d)?(?:[T ].*)?")
_PLAUSIBLE_YEARS = range(2020, 2100)
_CONDITION_DESCRIPTIONS = {
    "who": "it acts only for a certain machine, user or location",
    "watched": "it checks whether it is observed, and then acts differently",
    "count": "it counts its uses, and acts differently after some",
    "when": "it waits for a certain day, and acts then",
    "again": "it waits for a certain weekday, month or hour, and acts then",
    "chance": "it acts by chance, so that a trial may not show it",
}
_HARMFUL_CALLS = {
    "system", "popen", "Popen", "exec", "eval", "rmtree", "unlink", "remove", "write_bytes",
    "urlopen", "connect", "execv", "execve", "execvp", "urandom", "post", "sendto", "sendall",
    "sendmail", "create_connection", "b64decode", "kill", "compile", "check_output", "run", "call",
    "check_call", "import_module", "__import__", "fork", "truncate",
}  # fmt: skip
_SERIOUS_ACTION_KINDS = frozenset({
    "network", "delete", "credentials", "environment", "stays", "dynamic", "agent", "tracks",
    "access", "workflows", "unreadable", "hooks",
})  # fmt: skip
_DESTRUCTIVE_CALLS = {
    "rmtree", "unlink", "remove", "write_bytes", "truncate", "urandom", "exec", "eval",
    "b64decode", "system", "execv", "sendto", "kill",
}  # fmt: skip
_MASS_OVERWRITE = re.compile(
    r"(?:walk|rglob|expanduser|home)\([\s\S]*\bopen\([^\n]*['\"](?:w|r\+|a)b?\+?['\"]"
)
"""Many files of the user, opened for writing."""
_EXIT_CALLS = {"exit", "_exit", "quit"}
_STATE_READ = re.compile(
    r"json\.loads?\(|\.read_text\(|\bopen\(|\.read\(|getmtime|pickle\.loads?\(|"
    r"\.get\(\s*['\"]\w*(?:runs?|counts?|counter|uses?|calls?|times|launches|starts)['\"]"
)

_USE_PATTERNS = {
    "state": _STATE_READ,
    "clock": _CLOCK_CALL,
    "year": _YEAR_ACCESS,
    "days": _DAY_ARITHMETIC,
    "part": _DATE_PART_ACCESS,
}


def check_logic_bombs(path: str, text: str, purpose: DeclaredPurpose) -> Iterator[ScanFinding]:
    suffix = PurePosixPath(path).suffix.casefold()
    if suffix in (".py", ".pyw") or re.match(r"#!.*\bpython", text):
        try:
            found = list(_ConditionAnalyzer(parse_python(text), path, text).found())
        except (ValueError, RecursionError, MemoryError):
            return
    elif suffix not in (".md", ".markdown", ".rst", ".txt", ".csv", ".html"):
        code = split_long_lines(remove_case_patterns(text[:MAX_SCRIPT_CHARS]))
        found = list(_find_in_other_code(code))
    else:
        return
    excused = {
        "watched": purpose.declares("watched", prominently=True),
        "again": purpose.declares("recurs"),
    }
    for line, kind in found:
        if not excused.get(kind):
            yield ScanFinding("capability", path, line, _CONDITION_DESCRIPTIONS[kind])
            return


class _ConditionAnalyzer:
    """Tracks which names of a Python module depend on host, clock or state."""

    def __init__(self, module: PythonModule, path: str, text: str) -> None:
        self._module = module
        self._known: dict[str, set[str]] = {}
        self._own_kinds: dict[ast.AST, tuple[set[str], set[str]]] = {}
        self._harmful: dict[ast.AST, bool] = {}
        self._counted = {
            _base_name(node.target) for node in module.nodes if isinstance(node, ast.AugAssign)
        } | {
            _base_name(node.targets[0])
            for node in module.nodes
            if isinstance(node, ast.Assign) and re.search(r"\+ 1\b", ast.unparse(node.value))
        }
        self._action_lines = [
            action.line
            for action in find_python_actions(path, text)
            if action.kind in _SERIOUS_ACTION_KINDS
        ]
        values = [(name, value) for name, value in _find_named_values(module) if name]
        for _ in range(3):
            for name, value in values:
                if kinds := self._classify(value):
                    self._known.setdefault(name, set()).update(kinds)

    def _classify(self, value: ast.AST) -> set[str]:
        if value not in self._own_kinds:
            self._own_kinds[value] = _classify_text(value)
        own, names = self._own_kinds[value]
        return own.union(*(self._known.get(name, ()) for name in names))

    def found(self) -> Iterator[tuple[int, str]]:
        for node in self._module.nodes:
            if isinstance(node, ast.If | ast.While | ast.IfExp):
                whole = isinstance(node, ast.If) and _only_exits(node.body)
                kind = self._classify_condition(node.test, self._module.tree if whole else node)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.BoolOp):
                kind = self._classify_condition(node.value.values[0], node.value)
            else:
                continue
            if kind:
                yield node.lineno, kind

    def _classify_condition(self, test: ast.expr, body: ast.AST) -> str:
        """The kind of a condition that decides over harm; empty for any other."""
        kinds = self._classify(test)
        if not kinds or not self._is_harmful(body):
            return ""
        if "watched" in kinds:
            return "watched"
        if "who" in kinds and _has_literal(test):
            return "who"
        if "state" in kinds and self._is_count(test):
            return "count"
        if "clock" in kinds and self._compares_with_fixed_date(test, kinds):
            return "when"
        if "clock" in kinds and _compares_with_recurring_time(test, kinds):
            calls = (each for each in ast.walk(body) if isinstance(each, ast.Call))
            if any(last_name(call.func) in _DESTRUCTIVE_CALLS for call in calls):
                return "again"
        chance = "chance" in kinds and re.search(r"[<>]|==|% ", ast.unparse(test))
        return "chance" if chance else ""

    def _compares_with_fixed_date(self, test: ast.AST, kinds: set[str]) -> bool:
        if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Call | ast.Name):
            return False
        values: list[object] = []
        for each in ast.walk(test):
            if isinstance(each, ast.Constant):
                values.append(each.value)
            elif isinstance(each, ast.Name):
                values.append(self._module.constants.get(each.id))
        return "moment" in kinds or any(_is_absolute_time(value, kinds) for value in values)

    def _is_count(self, test: ast.expr) -> bool:
        numbers = [
            each.value
            for each in ast.walk(test)
            if isinstance(each, ast.Constant) and isinstance(each.value, int)
        ]
        names = {each.id for each in ast.walk(test) if isinstance(each, ast.Name)}
        large = any(not isinstance(number, bool) and number >= 2 for number in numbers)
        return large and bool(names & self._counted)

    def _is_harmful(self, body: ast.AST) -> bool:
        """Computed once for each body: that of many conditions is the whole module."""
        if body not in self._harmful:
            self._harmful[body] = self._contains_harm(body)
        return self._harmful[body]

    def _contains_harm(self, body: ast.AST) -> bool:
        first = getattr(body, "lineno", 1)
        last = getattr(body, "end_lineno", None) or 1 << 30
        if any(first <= line <= last for line in self._action_lines):
            return True
        called = {last_name(each.func) for each in ast.walk(body) if isinstance(each, ast.Call)}
        overwrites = "open" in called and _MASS_OVERWRITE.search(ast.unparse(body))
        return bool(overwrites) or bool(called & _HARMFUL_CALLS)


def _find_named_values(module: PythonModule) -> Iterator[tuple[str, ast.expr]]:
    """What is assigned to a name, or returned by a function of that name."""
    for node in module.nodes:
        if isinstance(node, ast.Assign):
            yield from ((_base_name(target), node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            yield _base_name(node.target), node.value
        elif isinstance(node, ast.FunctionDef):
            for each in ast.walk(node):
                if isinstance(each, ast.Return) and each.value is not None:
                    yield node.name, each.value


def _classify_text(value: ast.AST) -> tuple[set[str], set[str]]:
    """What an expression itself depends on, and the names in it."""
    text = ast.unparse(value)
    known = ("who", "watched", "chance")
    kinds = {kind for kind in known if load_pattern("conditions", kind).search(text)}
    kinds |= {kind for kind, pattern in _USE_PATTERNS.items() if pattern.search(text)}
    inside = list(ast.walk(value))
    if any(isinstance(each, ast.Call) and _is_fixed_date(each) for each in inside):
        kinds.add("moment")
    return kinds, {each.id for each in inside if isinstance(each, ast.Name)}


def _base_name(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _has_literal(test: ast.expr) -> bool:
    """Return whether it is compared with a literal."""
    return any(
        isinstance(each, ast.Constant)
        and isinstance(each.value, str | bytes)
        and len(each.value) > 1
        for each in ast.walk(test)
    )


def _only_exits(body: list[ast.stmt]) -> bool:
    for each in body:
        called = each.value if isinstance(each, ast.Expr) else None
        last = last_name(called.func) if isinstance(called, ast.Call) else ""
        if not isinstance(each, ast.Return | ast.Raise | ast.Continue) and last not in _EXIT_CALLS:
            return False
    return True


def _find_in_other_code(text: str) -> Iterator[tuple[int, str]]:
    """In shell and other languages, by patterns over the whole file."""
    code = "\n".join(
        "" if line.lstrip().startswith(("#", "//")) else line for line in text.split("\n")
    )
    if not find_first(load_pattern("conditions", "harm"), code):
        return
    for kind in ("watched", "who", "count", "when", "again", "chance"):
        if found := find_first(load_pattern("conditions", f"shell_{kind}"), code):
            yield line_number(code, found.start()), kind


def _is_fixed_date(call: ast.Call) -> bool:
    first = call.args[0] if call.args else None
    if last_name(call.func) not in _DATE_CONSTRUCTORS or not isinstance(first, ast.Constant):
        return False
    return _is_absolute_time(first.value, {"year", "days"})


def _is_absolute_time(value: object, kinds: set[str]) -> bool:
    if isinstance(value, str):
        return bool(_DATE_TEXT.fullmatch(value))
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    if "year" in kinds and (value in _PLAUSIBLE_YEARS or 202_000 < value < 210_000):
        return True
    if "days" in kinds and 19_000 < value < 25_000:
        return True
    return (
        730_000 < value < 760_000
        or 20_200_000 < value < 21_000_000
        or 1_500_000_000 < value < 4_000_000_000
        or 1_500_000_000_000 < value < 4_000_000_000_000
    )


def _compares_with_recurring_time(test: ast.AST, kinds: set[str]) -> bool:
    """Return whether the clock is compared with a weekday, a month or an hour."""
    return "part" in kinds and any(
        isinstance(each, ast.Compare)
        and any(isinstance(side, ast.Constant | ast.Tuple | ast.Set) for side in each.comparators)
        for each in ast.walk(test)
    )
