"""A draft in a real sandbox: proven, fixed, refused; and the function run as a tool."""

import hashlib
import zipfile
from pathlib import Path

import pytest
from compiler_fixtures import CODE, TASK, TESTS, Heard, a_workshop, answer, scripted

from hermes.app.skills.workshop import SkillWorkshop
from hermes.core.errors import SettingsError, ToolError
from hermes.core.events.skills import SkillChanged
from hermes.core.protocols import ToolContext
from hermes.environments.sandboxing import support
from hermes.gym.episodes.responder_context import EpisodeArtifacts
from hermes.models.scripted import ScriptedModel
from hermes.skills.compiler.build import CompilationFailed, read_allowed_modules
from hermes.skills.compiler.draft import PythonSkillDraft, read_draft_folder, use_relative_paths
from hermes.skills.compiler.registry import read_registry

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
BROKEN = CODE.replace('"Revenue"', '"Income"')
UNTESTED = """from generate_csv_report import generate_csv_report


def test_it():
    generate_csv_report('a', {})
    assert 1 == 1
"""


async def nowhere(*events: object) -> list[int]:
    return []


def context(heard: Heard) -> ToolContext:
    return ToolContext("run-1", None, heard.publish, None, EpisodeArtifacts())  # type: ignore[arg-type]


async def create(workshop: SkillWorkshop, heard: Heard, *texts: str) -> ScriptedModel:
    model = scripted(*texts)
    await workshop.create(context(heard), "generate_csv_report", TASK, model, heard.lines.append)
    return model


async def test_a_failing_draft_is_fixed_with_its_real_traceback(tmp_path: Path) -> None:
    heard = Heard()
    model = await create(a_workshop(tmp_path), heard, answer(BROKEN), "no code", answer())
    assert heard.lines == [
        "[Core] No tool found for task…",
        "[Compiler] Drafting 'generate_csv_report.py'…",
        "[Sandbox] Executing validation suite… Exit code: 1",
        "[Compiler] Repairing 'generate_csv_report.py' (1 of 3)…",
        "[Compiler] 'generate_csv_report.py' was refused: no code: the answer must have a "
        "```python block with the function",
        "[Compiler] Repairing 'generate_csv_report.py' (2 of 3)…",
        "[Sandbox] Executing validation suite… Exit code: 0",
        "[Core] Skill 'generate_csv_report' successfully registered.",
    ]
    fed_back = model.seen[1][-1].text
    assert "Traceback" in fed_back
    assert "test_generate_csv_report.py" in fed_back
    assert "AssertionError" in fed_back


async def test_after_three_repairs_it_gives_up_and_says_what_failed(tmp_path: Path) -> None:
    heard, workshop = Heard(), a_workshop(tmp_path)
    with pytest.raises(CompilationFailed) as failure:
        await create(workshop, heard, *[answer(BROKEN)] * 9)
    assert "after 3 repairs" in str(failure.value)
    assert "AssertionError" in str(failure.value)
    assert sum("Repairing" in line for line in heard.lines) == 3
    assert not any("registered" in line for line in heard.lines)
    assert read_registry(workshop.root) == []
    assert not (workshop.root / "generate-csv-report").exists()


async def compiled(workshop: SkillWorkshop, code: str = CODE, tests: str = TESTS) -> None:
    draft = PythonSkillDraft(
        function="generate_csv_report",
        code=use_relative_paths(code),
        tests=use_relative_paths(tests),
    )
    await prove_and_save(workshop, draft)


async def prove_and_save(workshop: SkillWorkshop, draft: PythonSkillDraft) -> None:
    await workshop.save(await workshop.prove(draft, nowhere, "run-1"), nowhere, "run-1", "me")


async def test_by_hand_it_is_proven_the_same_way_and_not_fixed(tmp_path: Path) -> None:
    workshop = a_workshop(tmp_path)
    await compiled(workshop)
    folder = workshop.root / "generate-csv-report"
    assert read_draft_folder(folder).code == use_relative_paths(CODE)
    with pytest.raises(CompilationFailed, match="as it stands"):
        await compiled(workshop, code=BROKEN)
    assert read_draft_folder(folder).code == use_relative_paths(CODE)


async def test_tests_that_notice_nothing_prove_nothing(tmp_path: Path) -> None:
    with pytest.raises(CompilationFailed, match="replaced by a function that does nothing"):
        await compiled(a_workshop(tmp_path), tests=UNTESTED)


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("Path('skills/x').write_text('x')", "only write below data/"),
        ("Path('x.csv').write_text('x')", "only write below data/"),
        ("list(open(chr(47) + 'etc' + chr(47) + 'hostname'))", "only read below data/"),
        ("Path(chr(46) * 2, 'x').write_text('x')", "only write below data/"),
        ("while True: pass", "longer than"),
        ("x = ' ' * (8 << 30)", "MemoryError"),
    ],
)
async def test_what_the_eye_misses_the_walls_stop(tmp_path: Path, line: str, cause: str) -> None:
    code = CODE.replace("    target =", f"    {line}\n    target =")
    limit = "3" if cause == "longer than" else "60"  # a busy machine takes seconds to start
    workshop = a_workshop(tmp_path, **{"skills.test_timeout": limit})
    with pytest.raises(CompilationFailed) as failure:
        await compiled(workshop, code=code)
    assert cause in str(failure.value)


async def test_the_function_writes_below_data_and_nowhere_else(tmp_path: Path) -> None:
    heard, workshop = Heard(), a_workshop(tmp_path)
    lenient = CODE.replace(
        "if not filename or Path(filename).name != filename:", "if not filename:"
    )
    tests = TESTS.split("def test_a_name")[0]
    await compiled(workshop, code=lenient, tests=tests)
    tool = workshop.find("generate_csv_report")
    said = await tool(context(heard), {"filename": "q1", "sales_data": {"Tea": 1.5}})
    assert said == "data/q1.csv"
    assert (workshop.data / "q1.csv").read_text() == "Product,Revenue\nTea,1.5\n"
    with pytest.raises(ToolError, match="only write below data/"):
        await tool(
            context(heard), {"filename": "../skills/generate-csv-report/x", "sales_data": {}}
        )
    with pytest.raises(ToolError, match="sales_data"):
        await tool(context(heard), {"filename": "q1", "sales_data": "none"})
    with pytest.raises(ToolError, match="unknown field"):
        tool.validate({"filename": "q1", "sales_data": {}, "more": 1})


async def test_a_skill_changed_after_it_was_proven_is_not_run(tmp_path: Path) -> None:
    heard, workshop = Heard(), a_workshop(tmp_path)
    await compiled(workshop)
    script = workshop.root / "generate-csv-report" / "scripts" / "generate_csv_report.py"
    script.write_text(script.read_text() + "\n# later\n")
    with pytest.raises(ToolError, match="hermes skills compile"):
        await workshop.find("generate_csv_report")(context(heard), {"filename": "a"})


async def test_the_same_wish_under_another_name_is_refused(tmp_path: Path) -> None:
    heard, workshop = Heard(), a_workshop(tmp_path)
    await create(workshop, heard, answer())
    with pytest.raises(ToolError, match="generate_csv_report does nearly the same"):
        await workshop.create(context(heard), "csv_maker", TASK, scripted())
    before = read_registry(workshop.root)[0].digest
    longer = CODE.replace("Returns the path", "Replaces an older one. Returns the path")
    await create(workshop, heard, answer(longer))
    assert [each.function for each in read_registry(workshop.root)] == ["generate_csv_report"]
    manual = workshop.root / "generate-csv-report" / "SKILL.md"
    assert "Replaces an older one" in manual.read_text()
    changed = [each for each in heard.events if isinstance(each, SkillChanged)]
    assert changed[-1].parents == (before,)


async def test_a_builtin_tool_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="already"):
        await a_workshop(tmp_path).create(context(Heard()), "terminal", "x", scripted())


def a_wheel(folder: Path) -> tuple[Path, str]:
    wheel = folder / "tinytable-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tinytable.py", "def row(a, b):\n    return f'{a} | {b}'\n")
        info = "tinytable-1.0.dist-info"
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinytable\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel, hashlib.sha256(wheel.read_bytes()).hexdigest()


TABLE = '''"""Rows."""

import tinytable


def one_row(a: str) -> str:
    """Make one row of a table."""
    return tinytable.row(a, a)
'''
TABLE_TEST = "from one_row import one_row\n\n\ndef test_it():\n    assert one_row('x') == 'x | x'\n"


async def test_a_missing_module_comes_only_from_the_list_and_only_with_its_hash(
    tmp_path: Path,
) -> None:
    wheel, digest = a_wheel(tmp_path)
    workshop = a_workshop(tmp_path, **{"skills.wheels": str(tmp_path)})
    draft = PythonSkillDraft(function="one_row", code=TABLE, tests=TABLE_TEST)
    with pytest.raises(CompilationFailed, match="tinytable is not on the allow-list"):
        await prove_and_save(workshop, draft)
    workshop.root.mkdir(parents=True)
    listed = workshop.root / "modules.txt"
    listed.write_text(f"tinytable: tinytable==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(ToolError, match=r"tinytable==1\.0 could not be installed"):
        await prove_and_save(workshop, draft)
    listed.write_text(f"tinytable: tinytable==1.0 --hash=sha256:{digest}\n")
    await prove_and_save(workshop, draft)
    pinned = workshop.root / "one-row" / "requirements.txt"
    assert pinned.read_text() == f"tinytable==1.0 --hash=sha256:{digest}\n"
    assert await workshop.find("one-row")(context(Heard()), {"a": "y"}) == "y | y"
    assert wheel.exists()


@pytest.mark.parametrize("line", ["x: y==1", "x", "x: y --hash=sha256:00", "x y: z==1"])
def test_a_list_without_pins_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "modules.txt"
    file.write_text(f"# fine\n{line}\n")
    with pytest.raises(SettingsError, match=":2: "):
        read_allowed_modules(file)
