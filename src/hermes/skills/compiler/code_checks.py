"""Checks the code of a Python skill against the allowed modules and names, without running it.

The sandbox stops the rest as well; these checks report it with a line, before anything runs.
"""

import ast
import re
from collections.abc import Collection, Iterator

from hermes.core.messages import Value
from hermes.plumbing.problems import Problem
from hermes.skills.compiler.draft import PythonSkillDraft
from hermes.skills.compiler.function_signature import (
    FunctionSignature,
    SkillCodeError,
    read_signature,
)


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALLOWED_MODULES = _word_set(
    """
    __future__ abc array base64 binascii bisect calendar collections colorsys configparser copy csv
    dataclasses datetime decimal difflib enum fnmatch fractions functools graphlib gzip hashlib
    heapq hmac html io ipaddress itertools json locale math numbers operator os pathlib posixpath
    pprint random re secrets shlex shutil statistics string struct sys textwrap time timeit tomllib
    types typing unicodedata urllib uuid warnings xml zipfile zlib zoneinfo
    """
)
ALLOWED_MODULE_NAMES: dict[str, frozenset[str]] = {
    "os": _word_set(
        "path sep linesep fspath makedirs mkdir listdir scandir stat remove unlink rename replace "
        "getcwd walk PathLike"
    ),
    "sys": _word_set("maxsize version_info float_info byteorder getsizeof"),
    "shutil": _word_set("copy copy2 copyfile copyfileobj move rmtree disk_usage"),
    "urllib": frozenset({"parse"}),
    "operator": _word_set(
        "itemgetter add sub mul truediv floordiv mod neg eq ne lt le gt ge and_ or_ xor not_ "
        "contains getitem concat index"
    ),
    "types": _word_set("MappingProxyType SimpleNamespace"),
    "io": _word_set("StringIO BytesIO TextIOWrapper"),
    "xml": frozenset({"etree", "sax"}),
}
"""Modules of which only these names may be used."""
REFUSED_MODULES = {
    "network": "socket ssl http ftplib smtplib poplib imaplib telnetlib xmlrpc socketserver "
    "asyncio selectors select requests httpx httpx2 aiohttp urllib3 websockets paramiko "
    "boto3 nntplib webbrowser wsgiref",
    "other programs": "subprocess pty multiprocessing concurrent threading _thread signal sched "
    "pexpect psutil",
    "the machine": "ctypes cffi mmap resource fcntl termios pwd grp syslog platform tempfile glob",
    "the interpreter": "importlib imp runpy pkgutil builtins inspect gc code codeop site sysconfig "
    "ast dis marshal pickle shelve copyreg weakref traceback linecache tracemalloc faulthandler "
    "zipimport ensurepip venv pip setuptools",
}
"""Modules that a skill may not import, by what they would reach."""
FORBIDDEN_NAMES = _word_set(
    """
    exec eval compile __import__ globals locals vars breakpoint input memoryview
    __builtins__ __loader__ __spec__ exit quit help
    """
)
ATTRIBUTE_FUNCTIONS = frozenset({"getattr", "setattr", "delattr", "hasattr"})
FORBIDDEN_ATTRIBUTES = _word_set(
    """
    f_globals f_locals f_builtins f_back f_code gi_frame gi_code cr_frame ag_frame tb_frame tb_next
    func_globals co_code _getframe modules meta_path path_hooks system popen load_module
    find_module exec_module get_data attrgetter methodcaller
    """
)
ALLOWED_DUNDERS = _word_set(
    """
    __name__ __doc__ __init__ __post_init__ __str__ __repr__ __eq__ __lt__ __hash__ __len__ __iter__
    __next__ __enter__ __exit__ __contains__ __getitem__ __call__ __add__ __bool__ __slots__
    __annotations__ __all__ __version__ __cause__ __context__
    """
)


def describe_module_reach(module: str) -> str:
    """Empty for a module that is not listed."""
    return next((what for what, names in REFUSED_MODULES.items() if module in names.split()), "")


def is_powerful_module(name: str) -> bool:
    """Return whether it reaches more than a skill may, also as a private module (`_os`)."""
    plain = name.lstrip("_")
    return plain in ("os", "sys", "shutil", "nt", "posix") or bool(describe_module_reach(plain))


MAX_CODE_CHARS = 64 << 10
_DUNDER = re.compile(r"__[a-zA-Z]+__")
_SYSTEM_PATH = re.compile(
    r"^(~|/(etc|usr|var|home|root|proc|sys|dev|bin|sbin|opt|srv|mnt|boot|lib|run|tmp)(/|$))"
)
_PARENT_PATH = re.compile(r"(^|[/\\])\.\.([/\\]|$)")
_TOP_LEVEL_STATEMENTS = (
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.AnnAssign, ast.Assign,
)  # fmt: skip
_CONSTANT_CONSTRUCTORS = frozenset(
    {"frozenset", "set", "dict", "tuple", "list", "Decimal", "compile", "Path"}
)
CodeProblems = Iterator[tuple[int, str]]


class CodeCheckResult(Value, kw_only=True, frozen=True):
    problems: tuple[Problem, ...] = ()
    signature: FunctionSignature | None = None
    modules: tuple[str, ...] = ()
    """Modules of the allow-list that it imports."""

    @property
    def ok(self) -> bool:
        return not self.problems


def check_draft(draft: PythonSkillDraft, allowed: Collection[str] = ()) -> CodeCheckResult:
    """`allowed`: modules outside the standard library that may be installed for it."""
    problems: list[Problem] = []
    signature: FunctionSignature | None = None
    modules: set[str] = set()
    for file, text in ((draft.file, draft.code), (f"test_{draft.file}", draft.tests)):
        tests = file != draft.file
        found: list[tuple[int, str]] = []
        try:
            tree = parse_code(text)
            own = {*allowed, draft.function} if tests else {*allowed}
            found += _check_tree(tree, own, tests=tests)
            modules |= {name for _, name in _imported_modules(tree)} & {*allowed}
            if tests:
                found += _check_tests(tree, draft)
            else:
                signature = read_signature(tree, draft.function)
        except SkillCodeError as error:
            found.append((error.line, str(error)))
        problems += [Problem(file, line, cause) for line, cause in found]
    unique = tuple(dict.fromkeys(problems))
    return CodeCheckResult(problems=unique, signature=signature, modules=tuple(sorted(modules)))


def parse_code(text: str) -> ast.Module:
    if len(text) > MAX_CODE_CHARS:
        raise SkillCodeError(1, f"the code is longer than {MAX_CODE_CHARS >> 10} KiB")
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise SkillCodeError(error.lineno or 1, f"SyntaxError: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise SkillCodeError(1, f"the code cannot be parsed: {error}") from error


def _check_tree(tree: ast.Module, allowed: Collection[str], *, tests: bool) -> CodeProblems:
    yield from _check_top_level(tree)
    yield from _check_imports(tree, allowed)
    yield from _check_indirect_modules(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield from _check_name(node)
        elif isinstance(node, ast.Attribute):
            yield from _check_attribute(node)
        elif isinstance(node, ast.Call):
            yield from _check_call(node)
        elif isinstance(node, ast.MatchClass):
            for name in node.kwd_attrs:
                yield from _check_attribute(ast.Attribute(node.cls, name, lineno=node.cls.lineno))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _check_text(node, node.value, tests=tests)


def _check_top_level(tree: ast.Module) -> CodeProblems:
    """Importing the module must have no effect."""
    for node in tree.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if not isinstance(node, _TOP_LEVEL_STATEMENTS):
            allowed = "imports, constants, classes and functions"
            yield node.lineno, f"the top level may have only {allowed}"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            calls = (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))
            for inner in calls:
                if _called_name(inner) not in _CONSTANT_CONSTRUCTORS:
                    yield inner.lineno, "a constant at the top level may not call anything"


def _check_imports(tree: ast.Module, allowed: Collection[str]) -> CodeProblems:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from _check_import_from(node)
        elif isinstance(node, ast.Import):
            for each in node.names:
                yield from _check_module_names(node, each.name, [])
                if each.asname and each.name in ALLOWED_MODULE_NAMES:
                    yield node.lineno, f"{each.name} must be imported under its own name"
    for line, module in _imported_modules(tree):
        if module not in ALLOWED_MODULES and module not in allowed:
            yield line, _refusal_reason(module)


def _check_import_from(node: ast.ImportFrom) -> CodeProblems:
    if node.level or any(each.name == "*" for each in node.names):
        yield node.lineno, "relative imports and import * are not allowed"
    elif node.module:
        yield from _check_module_names(node, node.module, [each.name for each in node.names])


def _refusal_reason(module: str) -> str:
    if reach := describe_module_reach(module):
        return f"{module} reaches {reach}, which a skill may not"
    return f"the module {module} is not on the allow-list of modules"


def _check_module_names(node: ast.stmt, module: str, names: list[str]) -> CodeProblems:
    root, _, rest = module.partition(".")
    if root not in ALLOWED_MODULE_NAMES:
        return
    for name in [rest.partition(".")[0]] if rest else names:
        if name not in ALLOWED_MODULE_NAMES[root]:
            yield node.lineno, f"a skill may not use {root}.{name}"


def _imported_modules(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield node.lineno, each.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.partition(".")[0]


def _check_indirect_modules(tree: ast.Module) -> CodeProblems:
    """Other modules that can be reached through an allowed one."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for each in node.names:
                bound.add((each.asname or each.name).partition(".")[0])
                if isinstance(node, ast.ImportFrom) and is_powerful_module(each.name):
                    yield node.lineno, f"{node.module}.{each.name} is another module"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_powerful_module(node.attr):
            module = node.value.id if isinstance(node.value, ast.Name) else ""
            if module in bound:
                yield node.lineno, f"{module}.{node.attr} is another module"


def _check_name(node: ast.Name) -> CodeProblems:
    if node.id in FORBIDDEN_NAMES:
        yield node.lineno, f"a skill may not use {node.id}"
    elif _DUNDER.fullmatch(node.id) and node.id not in ALLOWED_DUNDERS:
        yield node.lineno, f"{node.id} reaches into the interpreter"


def _check_attribute(node: ast.Attribute) -> CodeProblems:
    if _DUNDER.fullmatch(node.attr) and node.attr not in ALLOWED_DUNDERS:
        yield node.lineno, f".{node.attr} reaches into the interpreter"
    elif node.attr in FORBIDDEN_ATTRIBUTES:
        yield node.lineno, f"a skill may not use .{node.attr}"
    elif isinstance(node.value, ast.Name):
        module = node.value.id
        if node.attr not in ALLOWED_MODULE_NAMES.get(module, {node.attr}):
            yield node.lineno, f"a skill may not use {module}.{node.attr}"


def _check_call(node: ast.Call) -> CodeProblems:
    if isinstance(node.func, ast.Name) and node.func.id in ATTRIBUTE_FUNCTIONS:
        second = node.args[1] if len(node.args) > 1 else None
        name = second.value if isinstance(second, ast.Constant) else None
        if not isinstance(name, str):
            yield node.lineno, f"{node.func.id} needs a literal attribute name"
        elif name in FORBIDDEN_ATTRIBUTES | FORBIDDEN_NAMES:
            yield node.lineno, f"a skill may not use {node.func.id} of {name!r}"


def _check_text(node: ast.Constant, value: str, *, tests: bool) -> CodeProblems:
    hidden = [each for each in _DUNDER.findall(value) if each not in ALLOWED_DUNDERS]
    if hidden:
        yield node.lineno, f"the text {hidden[0]!r} reaches into the interpreter"
    if tests:  # a test may try what must fail
        return
    if _SYSTEM_PATH.match(value) and " " not in value.split("/")[0]:
        yield node.lineno, f"the path {value[:60]!r} is outside skills/ and data/"
    elif _PARENT_PATH.search(value) and len(value) < 200:
        yield node.lineno, f"the path {value[:60]!r} leads out of its folder"


def _check_tests(tree: ast.Module, draft: PythonSkillDraft) -> CodeProblems:
    tests = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    if not tests:
        yield 1, "there is no function test_…: a skill without tests is not compiled"
    elif not any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(tree)):
        yield 1, "no test asserts anything"
    if any(each.args.args for each in tests):
        yield tests[0].lineno, "tests take no arguments: there are no fixtures"
    names = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(tree)}
    if draft.function not in names:
        yield 1, f"no test calls {draft.function}"


def _called_name(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""
