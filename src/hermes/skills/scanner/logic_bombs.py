"""Finds code that acts only at a certain time, on a certain machine, or when unobserved."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from hermes.skills.scanner.deobfuscation import remove_case_patterns
from hermes.skills.scanner.finding import ScanFinding, line_number
from hermes.skills.scanner.patterns import load_pattern
from hermes.skills.scanner.purpose import DeclaredPurpose
from hermes.skills.scanner.python.actions import find_python_actions
from hermes.skills.scanner.python.obfuscation import dotted_name
from hermes.skills.scanner.python.static_values import FoldedValue, find_constants
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


def check_logic_bombs(path: str, text: str, purpose: DeclaredPurpose) -> Iterator[ScanFinding]:
    suffix = PurePosixPath(path).suffix.casefold()
    excused = purpose.declares("watched", prominently=True)
    if suffix in (".py", ".pyw") or re.match(r"#!.*\bpython", text):
        try:
            found = iter(list(_ConditionAnalyzer(ast.parse(text), path, text).found()))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
    elif suffix not in (".md", ".markdown", ".rst", ".txt", ".csv", ".html"):
        found = _find_in_other_code(split_long_lines(remove_case_patterns(text[:MAX_SCRIPT_CHARS])))
    else:
        return
    for line, kind in found:
        if kind == "watched" and excused:
            continue
        if kind == "again" and purpose.declares("recurs"):
            continue
        yield ScanFinding(
            kind="capability", file=path, line=line, cause=_CONDITION_DESCRIPTIONS[kind]
        )
        return


class _ConditionAnalyzer:
    """Tracks which names of a Python module depend on host, clock or state."""

    def __init__(self, tree: ast.Module, path: str, text: str) -> None:
        self._tree = tree
        self._known: dict[str, set[str]] = {}
        self._constants = find_constants(tree)
        self._counted = {
            _base_name(node.target) for node in ast.walk(tree) if isinstance(node, ast.AugAssign)
        } | {
            _base_name(node.targets[0])
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and re.search(r"\+ 1\b", ast.unparse(node.value))
        }
        self._action_lines = [
            action.line
            for action in find_python_actions(path, text)
            if action.kind in _SERIOUS_ACTION_KINDS
        ]
        for _ in range(3):
            self._propagate_kinds()

    def _propagate_kinds(self) -> None:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._add_kinds(_base_name(target), self._classify(node.value))
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                self._add_kinds(_base_name(node.target), self._classify(node.value))
            elif isinstance(node, ast.FunctionDef):
                for each in ast.walk(node):
                    if isinstance(each, ast.Return) and each.value is not None:
                        self._add_kinds(node.name, self._classify(each.value))

    def _add_kinds(self, name: str, kinds: set[str]) -> None:
        if name and kinds:
            self._known.setdefault(name, set()).update(kinds)

    def _classify(self, value: ast.AST) -> set[str]:
        text = ast.unparse(value)
        kinds = {
            kind
            for kind in ("who", "watched", "chance")
            if load_pattern("conditions", kind).search(text)
        }
        if _STATE_READ.search(text):
            kinds.add("state")
        kinds |= classify_time_use(value, text)
        for node in ast.walk(value):
            if isinstance(node, ast.Name):
                kinds |= self._known.get(node.id, set())
        return kinds

    def found(self) -> Iterator[tuple[int, str]]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.If | ast.While | ast.IfExp):
                body: list[ast.AST] = [node]
                if isinstance(node, ast.If) and _only_exits(node.body):
                    body = [self._tree]
                yield from self._classify_condition(node.test, node.lineno, body)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.BoolOp):
                yield from self._classify_condition(node.value.values[0], node.lineno, [node.value])

    def _classify_condition(
        self, test: ast.expr, line: int, body: list[ast.AST]
    ) -> Iterator[tuple[int, str]]:
        kinds = self._classify(test)
        if not kinds or not self._is_harmful(body):
            return
        if "watched" in kinds:
            yield line, "watched"
        elif "who" in kinds and _has_literal(test):
            yield line, "who"
        elif "state" in kinds and self._is_count(test):
            yield line, "count"
        elif "clock" in kinds and compares_with_fixed_date(test, kinds, self._constants):
            yield line, "when"
        elif (
            "clock" in kinds
            and compares_with_recurring_time(test, kinds)
            and self._is_destructive(body)
        ):
            yield line, "again"
        elif "chance" in kinds and re.search(r"[<>]|==|% ", ast.unparse(test)):
            yield line, "chance"

    def _is_count(self, test: ast.expr) -> bool:
        numbers = [
            each.value
            for each in ast.walk(test)
            if isinstance(each, ast.Constant) and isinstance(each.value, int)
        ]
        names = {each.id for each in ast.walk(test) if isinstance(each, ast.Name)}
        large = any(not isinstance(number, bool) and number >= 2 for number in numbers)
        return large and bool(names & self._counted)

    def _is_destructive(self, body: list[ast.AST]) -> bool:
        return any(
            isinstance(each, ast.Call)
            and dotted_name(each.func).rpartition(".")[2] in _DESTRUCTIVE_CALLS
            for part in body
            for each in ast.walk(part)
        )

    def _is_harmful(self, body: list[ast.AST]) -> bool:
        for part in body:
            first = getattr(part, "lineno", 1)
            last = getattr(part, "end_lineno", None) or 1 << 30
            if any(first <= line <= last for line in self._action_lines):
                return True
            calls = (each for each in ast.walk(part) if isinstance(each, ast.Call))
            called = [dotted_name(call.func).rpartition(".")[2] for call in calls]
            overwrites = "open" in called and _MASS_OVERWRITE.search(ast.unparse(part))
            if overwrites or any(name in _HARMFUL_CALLS for name in called):
                return True
        return False


def _base_name(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _has_literal(test: ast.expr) -> bool:
    """Whether it is compared with a literal."""
    return any(
        isinstance(each, ast.Constant)
        and isinstance(each.value, str | bytes)
        and len(each.value) > 1
        for each in ast.walk(test)
    )


def _only_exits(body: list[ast.stmt]) -> bool:
    for each in body:
        called = each.value if isinstance(each, ast.Expr) else None
        last = dotted_name(called.func).rpartition(".")[2] if isinstance(called, ast.Call) else ""
        if not isinstance(each, ast.Return | ast.Raise | ast.Continue) and last not in _EXIT_CALLS:
            return False
    return True


def _find_in_other_code(text: str) -> Iterator[tuple[int, str]]:
    """In shell and other languages, by patterns over the whole file."""
    code = "\n".join(
        "" if line.lstrip().startswith(("#", "//")) else line for line in text.split("\n")
    )
    if not load_pattern("conditions", "harm").search(code):
        return
    for kind in ("watched", "who", "count", "when", "again", "chance"):
        if found := load_pattern("conditions", f"shell_{kind}").search(code):
            yield line_number(code, found.start()), kind


def classify_time_use(value: ast.AST, text: str) -> set[str]:
    """How an expression uses time; `text` is its source."""
    kinds = {
        kind
        for kind, pattern in (
            ("clock", _CLOCK_CALL),
            ("year", _YEAR_ACCESS),
            ("days", _DAY_ARITHMETIC),
            ("part", _DATE_PART_ACCESS),
        )
        if pattern.search(text)
    }
    if any(isinstance(each, ast.Call) and _is_fixed_date(each) for each in ast.walk(value)):
        kinds.add("moment")
    return kinds


def _is_fixed_date(call: ast.Call) -> bool:
    last = dotted_name(call.func).rpartition(".")[2]
    first = call.args[0] if call.args else None
    if last not in _DATE_CONSTRUCTORS or not isinstance(first, ast.Constant):
        return False
    return _is_absolute_time(first.value, frozenset({"year", "days"}))


def compares_with_fixed_date(
    test: ast.AST, kinds: set[str], constants: Mapping[str, FoldedValue]
) -> bool:
    """Whether the clock is compared with a fixed date."""
    if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Call | ast.Name):
        return False
    if "moment" in kinds:
        return True
    for each in ast.walk(test):
        if isinstance(each, ast.Constant) and _is_absolute_time(each.value, kinds):
            return True
        if isinstance(each, ast.Name) and _is_absolute_time(constants.get(each.id), kinds):
            return True
    return False


def _is_absolute_time(value: object, kinds: set[str] | frozenset[str]) -> bool:
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


def compares_with_recurring_time(test: ast.AST, kinds: set[str]) -> bool:
    """Whether the clock is compared with a weekday, a month or an hour."""
    return "part" in kinds and any(
        isinstance(each, ast.Compare)
        and any(isinstance(side, ast.Constant | ast.Tuple | ast.Set) for side in each.comparators)
        for each in ast.walk(test)
    )
