"""A Python skill before it is compiled: its files, and a conversation with a model about them."""

import keyword
import re
from pathlib import Path

from hermes.core.errors import ToolError
from hermes.core.messages import Completion, Message, Value
from hermes.core.protocols import Model
from hermes.skills.compiler.function_signature import FunctionSignature
from hermes.skills.format import SkillText, parse_skill_text, render_skill_text

FUNCTION_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
REQUIREMENTS_FILE = "requirements.txt"


class PythonSkillDraft(Value, kw_only=True, frozen=True):
    function: str
    code: str
    tests: str
    task: str = ""
    """The task as the user wrote it."""

    @property
    def skill(self) -> str:
        return self.function.replace("_", "-")

    @property
    def file(self) -> str:
        return f"{self.function}.py"


def to_function_name(name: str) -> str:
    """The function name for a skill of this name. Raises `ToolError` when there is none."""
    function = re.sub(r"[\s-]+", "_", name.strip()).lower().removesuffix(".py")
    if (
        not FUNCTION_NAME.fullmatch(function)
        or keyword.iskeyword(function)
        or "__" in function
        or function[-1] == "_"
    ):
        raise ToolError(
            f"{name!r} cannot be the name of a Python skill: it begins with a letter, then a-z, "
            "0-9 and single underscores inside, at most 63 characters"
        )
    return function


def write_draft_folder(
    folder: Path,
    draft: PythonSkillDraft,
    signature: FunctionSignature,
    requirements: tuple[str, ...] = (),
) -> None:
    """Writes the skill as files; other files stay, also a manual written by hand."""
    texts = {f"scripts/{draft.file}": draft.code, f"tests/test_{draft.file}": draft.tests}
    if _is_generated_manual(folder / "SKILL.md", draft.function):
        texts["SKILL.md"] = render_manual(draft, signature)
    for path, text in texts.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    pinned = folder / REQUIREMENTS_FILE
    if requirements:
        pinned.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
    elif pinned.exists():
        pinned.unlink()


def read_draft_folder(folder: Path) -> PythonSkillDraft:
    """Raises `ToolError` naming the file that is missing."""
    scripts = sorted(each for each in (folder / "scripts").glob("*.py") if each.is_file())
    if len(scripts) != 1:
        found = ", ".join(each.name for each in scripts) or "none"
        raise ToolError(f"{folder}/scripts needs one Python file with one function; found: {found}")
    name = scripts[0].stem
    if to_function_name(name) != name:
        raise ToolError(f"{scripts[0]}: {name!r} is not a valid function name: use a-z, 0-9 and _")
    tests = folder / "tests" / f"test_{name}.py"
    if not tests.is_file():
        raise ToolError(f"{tests} is missing: a skill without tests is not compiled")
    task = ""
    if (folder / "SKILL.md").is_file():
        text = parse_skill_text((folder / "SKILL.md").read_text("utf-8"), folder=folder.name)
        task = text.metadata.get("task", "")
    return PythonSkillDraft(
        function=name,
        code=scripts[0].read_text("utf-8"),
        tests=tests.read_text("utf-8"),
        task=task,
    )


def _is_generated_manual(file: Path, function: str) -> bool:
    """Return whether it is missing, or was generated from an older docstring."""
    if not file.is_file():
        return True
    text = parse_skill_text(file.read_text("utf-8"), folder=file.parent.name)
    return text.metadata.get("function") == function


def render_manual(draft: PythonSkillDraft, signature: FunctionSignature) -> str:
    """SKILL.md, generated from the docstring and the parameters."""
    metadata = {
        "category": "python",
        "function": draft.function,
        "capabilities": "files below data/; no network, no programs",
    }
    if draft.task:
        metadata["task"] = " ".join(draft.task.split())[:500]
    about = " ".join(signature.docstring.split("\n\n")[0].split()).rstrip(".")
    description = f"{about}. Use it as the tool {draft.function} when a task asks for exactly that."
    rows = [
        f"- `{each.name}` ({each.type_text}){each.default_text}" for each in signature.parameters
    ]
    body = f"""# {draft.function}

{signature.docstring}

## Parameters

{chr(10).join(rows) or "None."}

## How it runs

As the tool `{draft.function}`, under the same policy as every tool, in a sandbox without network.
It reads and writes files only below `data/`; it can read `skills/` but not change it.

## Files

- `scripts/{draft.file}`: the function
- `tests/test_{draft.file}`: its tests
"""
    return render_skill_text(
        SkillText(name=draft.skill, description=description[:1000], body=body, metadata=metadata)
    )


DRAFT_PROMPT = """\
You write one Python function that becomes a tool, and its tests.

Answer with two fenced blocks and nothing else:
1. ```python with the module: a docstring, imports, and one public function named {function} with a
   type on every parameter (str, int, float, bool, list[...], dict[str, ...]) and a docstring that
   says what it does, what it returns, and shows a >>> example where that is easy.
2. ```python with plain functions test_...() that take no arguments, import it with
   `from {function} import {function}`, and assert on what it returns and writes.

It runs in a sandbox: Python's standard library for computing only{modules}; no network, no other
programs, no exec, eval or dunder tricks. Files are read and written below data/ (a relative path:
a task that names /app/data or an absolute folder means it), never elsewhere. A file name that comes
as an argument must not lead out of data/: check it. Return a short text or JSON value that
says what was done. Raise ValueError with a clear text for arguments that make no sense.
"""
_CODE_BLOCK = re.compile(r"```[ \t]*(?:python|py)?[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_APP_PATH = re.compile(r"(?<![\w/])/app/(data|skills)(?=[/\"'])")
MAX_TRACEBACK_CHARS = 6_000


class SkillDrafter:
    """Has one conversation with a model about one skill."""

    def __init__(self, model: Model, function: str, task: str, modules: tuple[str, ...]) -> None:
        self._model = model
        self._function = function
        self._task = task
        extra = f", and {', '.join(modules)}" if modules else ""
        self._messages = [
            Message(role="system", text=DRAFT_PROMPT.format(function=function, modules=extra)),
            Message(role="user", text=f"Write the function {function}. The task:\n\n{task}"),
        ]
        self.completions: list[Completion] = []

    async def repair(self, failure: str) -> PythonSkillDraft:
        """Sends the end of the traceback unchanged: it tells most about the failure."""
        order = "That failed. Fix it and answer with both complete blocks again."
        text = f"{order}\n\n```\n{failure[-MAX_TRACEBACK_CHARS:]}\n```"
        self._messages.append(Message(role="user", text=text))
        return await self.draft()

    async def draft(self) -> PythonSkillDraft:
        """Raises `ModelError`; an answer without code is a draft that the checks refuse."""
        completion = await self._model.complete(self._messages)
        self.completions.append(completion)
        self._messages.append(completion.message)
        code, tests = split_answer(completion.message.text)
        return PythonSkillDraft(function=self._function, code=code, tests=tests, task=self._task)


def split_answer(text: str) -> tuple[str, str]:
    """Code and tests of an answer; each is empty when missing."""
    blocks = [use_relative_paths(block) for block in _CODE_BLOCK.findall(text)]
    tests = [block for block in blocks if re.search(r"^def test_", block, re.MULTILINE)]
    code = [block for block in blocks if block not in tests]
    return (code[0] if code else ""), (tests[0] if tests else "")


def use_relative_paths(code: str) -> str:
    """Replaces `/app/data/x` by `data/x`."""
    return _APP_PATH.sub(r"\1", code)
