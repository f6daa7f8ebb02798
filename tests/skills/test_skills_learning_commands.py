"""The commands a person uses to compile, distil, promote and review."""

import json
from pathlib import Path

import pytest
from compiler_fixtures import CODE, TESTS
from verified_run import a_run

from hermes.cli.main import main
from hermes.environments.sandboxing import support
from hermes.memory.store import open_journal
from hermes.settings.load import load
from hermes.skills.compiler.draft import use_relative_paths

sandboxed = pytest.mark.skipif(
    bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["skills", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def a_folder(folder: Path, code: str = CODE) -> Path:
    skill = folder / "mine"
    for name, text in (
        ("scripts/generate_csv_report.py", use_relative_paths(code)),
        ("tests/test_generate_csv_report.py", TESTS),
        ("references/more.md", "# More\n"),
    ):
        (skill / name).parent.mkdir(parents=True, exist_ok=True)
        (skill / name).write_text(text)
    return skill


@sandboxed
def test_a_folder_is_compiled_by_hand(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "compile", str(a_folder(tmp_path)))
    assert code == 0, err
    assert "[Sandbox] Executing validation suite… Exit code: 0" in err
    assert "[Core] Skill 'generate_csv_report' successfully registered." in err
    assert "3 of 3 passed" in out
    assert (home / "skills" / "generate-csv-report" / "references" / "more.md").is_file()
    code, out, _ = run(capsys, "promote", "generate-csv-report", "--json")
    assert (code, json.loads(out)["life"]["state"]) == (0, "compiled")


@sandboxed
def test_a_folder_that_fails_registers_nothing_and_says_why(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_folder(tmp_path, CODE.replace('"Revenue"', '"Income"'))
    code, _, err = run(capsys, "compile", str(folder), "--json")
    assert code == 1
    assert "AssertionError" in err
    assert not (home / "skills" / "generate-csv-report").exists()
    (folder / "tests" / "test_generate_csv_report.py").unlink()
    code, _, err = run(capsys, "compile", str(folder))
    assert code == 1
    assert "a skill without tests is not compiled" in err


@pytest.mark.anyio
async def test_a_run_is_distilled_into_a_draft(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_journal(load(home=home, variables={}).store) as journal:
        await journal.append(*(each.event for each in a_run()))  # type: ignore[arg-type]

    def commands() -> None:
        code, out, err = run(capsys, "distill", "run-1", "--name", "bad-number", "--dry-run")
        assert (code, "nothing was saved" in out) == (0, True), err
        code, out, err = run(capsys, "distill", "run-1", "--name", "bad-number")
        assert code == 0, err
        assert "hermes skills promote bad-number" in out
        assert (home / "skills" / "bad-number" / "playbook.yaml").is_file()
        code, out, _ = run(capsys, "promote", "bad-number")
        assert "draft" in out
        code, _, err = run(capsys, "distill", "no-such-run")
        assert "there is no run" in err

    from anyio import to_thread  # noqa: PLC0415 - a command has a loop of its own

    await to_thread.run_sync(commands)


def test_a_review_waits_until_it_is_due(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "review", "--check")[1] == "no review is due\n"


def test_mistakes_are_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no skill" in run(capsys, "promote", "nothing-like-it")[2]
    assert "are not seeds" in run(capsys, "promote", "x", "--scenario", "y", "--seeds", "a")[2]
