"""Detects string tricks, and comparisons with a fixed time or machine, in Python code."""

import ast
import re

_CLOCK_CALLS = {"now", "today", "time", "utcnow", "localtime", "gmtime", "gettrace"}
_DATE_CONSTRUCTORS = {"datetime", "date", "fromisoformat", "strptime", "mktime"}
_DECODING_CALLS = {
    "decode", "fromhex", "b64decode", "unhexlify", "b85decode", "a85decode", "decompress",
    "b32decode", "b16decode", "urlsafe_b64decode",
}  # fmt: skip


def is_string_trick(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return node.slice.step is not None and isinstance(node.value, ast.Constant | ast.Name)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (
            _is_plain_text(node.left) and _is_plain_text(node.right) and len(ast.unparse(node)) < 60
        )
    if isinstance(node, ast.Call):
        last = dotted_name(node.func).rpartition(".")[2]
        if last == "join" and node.args:
            return _is_spelled_out(node.args[0])
        if last in _DECODING_CALLS:
            return any(
                isinstance(each, ast.Constant | ast.List)
                for each in ast.walk(node)
                if each is not node.func
            )
        if last in ("chr", "bytes", "bytearray", "reversed"):
            return bool(node.args) and isinstance(node.args[0], ast.List | ast.Tuple | ast.Constant)
        if last in ("replace", "translate", "format"):
            return (
                isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Constant)
                and last == "replace"
            )
    return False


def _is_plain_text(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_plain_text(node.left) and _is_plain_text(node.right)
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value


def _is_spelled_out(node: ast.AST) -> bool:
    """`["so", "cket"]`, `map(chr, …)`, `chr(c) for c in …`, `reversed("…")`."""
    if isinstance(node, ast.List | ast.Tuple):
        texts = [each.value for each in node.elts if isinstance(each, ast.Constant)]
        return bool(texts) and all(
            isinstance(each, str) and len(each) <= 6 and each.strip() for each in texts
        )
    if isinstance(node, ast.Call):
        source = ast.unparse(node)
        return source.startswith(("map(chr", "reversed("))
    return isinstance(node, ast.GeneratorExp | ast.ListComp) and "chr(" in ast.unparse(node.elt)


def spelled_in_numbers(node: ast.AST) -> bool:
    """A word written as character codes, which harmless code does not need."""
    source = ast.unparse(node) if isinstance(node, ast.Call) else ""
    return bool(re.match(r"(?:''|\"\")\.join\(map\(chr, [\[(]\d+(?:, \d+){2,}", source))


def decodes_or_fetches(node: ast.AST) -> bool:
    return bool(
        re.search(
            r"decode|decompress|fromhex|unhexlify|urlopen|requests\.|\.read\(|httpx|recv\(|rot|\.text\b|\.content\b",
            ast.unparse(node),
        )
    )


def is_whole_home_or_system(node: ast.AST, folded: object) -> bool:
    text = ast.unparse(node)
    if re.search(
        r"expanduser\(['\"]~/?['\"]\)$|Path\.home\(\)$|environ\[['\"]HOME['\"]\]$|environ\.get\(['\"]HOME",
        text,
    ):
        return True
    return isinstance(folded, str) and folded.rstrip("/*") in (
        "",
        "~",
        "/home",
        "/etc",
        "/usr",
        "/var",
        "C:\\",
    )


def compares_with_fixed_time(test: ast.AST, dates: frozenset[str] = frozenset()) -> bool:
    uses_clock = any(
        isinstance(each, ast.Call) and dotted_name(each.func).rpartition(".")[2] in _CLOCK_CALLS
        for each in ast.walk(test)
    )
    uses_clock = uses_clock or any(
        isinstance(each, ast.Attribute) and each.attr in ("year", "month", "day", "hour")
        for each in ast.walk(test)
    )
    if not uses_clock:
        return False
    for each in ast.walk(test):
        if isinstance(each, ast.Name) and each.id in dates:
            return True
        if (
            isinstance(each, ast.Call)
            and dotted_name(each.func).rpartition(".")[2] in _DATE_CONSTRUCTORS
        ):
            return True
        if isinstance(each, ast.Constant) and (
            _is_epoch_time(each.value) or _is_year(each.value, test)
        ):
            return True
    return False


def find_date_names(tree: ast.AST) -> frozenset[str]:
    """Names with a fixed date as their value."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value
            called = (
                dotted_name(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
            )
            if called in _DATE_CONSTRUCTORS or (
                isinstance(value, ast.Constant) and _is_epoch_time(value.value)
            ):
                found.add(node.targets[0].id)
    return frozenset(found)


def _is_year(value: object, test: ast.AST) -> bool:
    """A number counts as a year only in an expression about dates."""
    if isinstance(value, str):
        return bool(re.match(r"20\d\d", value))
    about_dates = bool(re.search(r"year|%[YyG]|toordinal", ast.unparse(test)))
    return about_dates and bool(re.match(r"20\d\d", str(value)))


def _is_epoch_time(value: object) -> bool:
    return isinstance(value, int | float) and 1_500_000_000 < value < 4_000_000_000


def compares_with_fixed_machine(test: ast.AST) -> bool:
    text = ast.unparse(test)
    return bool(
        re.search(
            r"gethostname\(|getuser\(|getlogin\(|platform\.node\(|uname\(|gettrace\(|['\"](?:CI|USER|USERNAME|HOSTNAME|SANDBOX)['\"]",
            text,
        )
    ) and bool(re.search(r"==|!=|\bin\b|startswith|endswith|is None|not ", text))


def dotted_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted_name(node.value)}.{node.attr}".lstrip(".")
    return node.id if isinstance(node, ast.Name) else ""
