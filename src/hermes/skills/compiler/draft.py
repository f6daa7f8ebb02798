"""A Python skill before and after it lies on the disk: one function, its tests, its manual."""

import keyword
import re
from pathlib import Path

from hermes.core.errors import ToolError
from hermes.core.messages import Value
from hermes.skills.compiler.signature import Signature
from hermes.skills.format.skill_text import SkillText, read_skill, write_skill

FUNCTION = re.compile(r"[a-z][a-z0-9_]{0,62}")
REQUIREMENTS = "requirements.txt"


class Draft(Value, kw_only=True, frozen=True):
    function: str
    code: str
    tests: str
    task: str = ""
    """What was asked for, in the words of who asked."""

    @property
    def skill(self) -> str:
        return self.function.replace("_", "-")

    @property
    def file(self) -> str:
        return f"{self.function}.py"


def function_name(asked: str) -> str:
    """The function that a skill of this name holds. Raises `ToolError` when there can be none."""
    name = re.sub(r"[\s-]+", "_", asked.strip()).lower().removesuffix(".py")
    if not FUNCTION.fullmatch(name) or keyword.iskeyword(name) or "__" in name or name[-1] == "_":
        raise ToolError(
            f"{asked!r} cannot be the name of a Python skill: it begins with a letter, then a-z, "
            "0-9 and single underscores inside, at most 63 characters"
        )
    return name


def write_folder(
    folder: Path, draft: Draft, signature: Signature, requirements: tuple[str, ...] = ()
) -> None:
    """The skill as files; whatever else lies in the folder stays, also a manual of one's own."""
    texts = {f"scripts/{draft.file}": draft.code, f"tests/test_{draft.file}": draft.tests}
    if _is_ours(folder / "SKILL.md", draft.function):
        texts["SKILL.md"] = manual(draft, signature)
    for place, text in texts.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    pinned = folder / REQUIREMENTS
    if requirements:
        pinned.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
    elif pinned.exists():
        pinned.unlink()


def read_folder(folder: Path) -> Draft:
    """Raises `ToolError` saying which file is missing."""
    scripts = sorted(each for each in (folder / "scripts").glob("*.py") if each.is_file())
    if len(scripts) != 1:
        found = ", ".join(each.name for each in scripts) or "none"
        raise ToolError(f"{folder}/scripts holds one Python file with one function; found: {found}")
    name = scripts[0].stem
    if function_name(name) != name:
        raise ToolError(f"{scripts[0]} is no name of a function: use a-z, 0-9 and _")
    tests = folder / "tests" / f"test_{name}.py"
    if not tests.is_file():
        raise ToolError(f"{tests} is missing: a skill without tests is not compiled")
    task = ""
    if (folder / "SKILL.md").is_file():
        text = read_skill((folder / "SKILL.md").read_text("utf-8"), folder=folder.name)
        task = text.metadata.get("task", "")
    return Draft(
        function=name,
        code=scripts[0].read_text("utf-8"),
        tests=tests.read_text("utf-8"),
        task=task,
    )


def _is_ours(file: Path, function: str) -> bool:
    """Not there, or made by us from an older docstring."""
    if not file.is_file():
        return True
    text = read_skill(file.read_text("utf-8"), folder=file.parent.name)
    return text.metadata.get("function") == function


def manual(draft: Draft, signature: Signature) -> str:
    """SKILL.md, made of the docstring, the parameters and the first test."""
    metadata = {
        "category": "python",
        "function": draft.function,
        "capabilities": "files below data/; no network, no programs",
    }
    if draft.task:
        metadata["task"] = " ".join(draft.task.split())[:500]
    about = " ".join(signature.about.split("\n\n")[0].split()).rstrip(".")
    description = f"{about}. Use it as the tool {draft.function} when a task asks for just that."
    rows = [f"- `{each.name}` ({each.told}){each.more}" for each in signature.parameters]
    body = f"""# {draft.function}

{signature.about}

## Parameters

{chr(10).join(rows) or "None."}

## How it runs

As the tool `{draft.function}`, through the same gate as every tool, in a sandbox without network.
It reads and writes files only below `data/`; it sees `skills/` and can change nothing there.

## Files

- `scripts/{draft.file}`: the function
- `tests/test_{draft.file}`: what proved it
"""
    return write_skill(
        SkillText(name=draft.skill, description=description[:1000], body=body, metadata=metadata)
    )
