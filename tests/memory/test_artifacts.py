"""Long texts are kept apart, under names that nobody can bend."""

from pathlib import Path

import anyio
import pytest

from hermes.core.errors import StoreError, ToolError
from hermes.memory.artifacts import FileArtifacts, delete_artifacts

pytestmark = pytest.mark.anyio

HOSTILE = [
    "",
    ".",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a\x00b",
    "a\nb",
    ".hidden",
    "-rf",
    "CON",
    "x" * 5000,
    "名前",
    "half \ud83d",
    "call_1",
    "Call_1",
    "CALL_1",
]


def inside(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


@pytest.fixture
def artifacts(tmp_path: Path) -> FileArtifacts:
    return FileArtifacts(tmp_path / "artifacts")


async def test_a_text_comes_back_as_it_was(artifacts: FileArtifacts) -> None:
    text = "line\r\nnext\n" + "ü" * 50_000
    reference = await artifacts.save("run-20260102-030405-abcdef", "call_1", text)
    assert reference == "artifact://run-20260102-030405-abcdef/call_1"
    assert await artifacts.load(reference) == text


async def test_hostile_names_stay_inside_the_folder_and_apart(
    artifacts: FileArtifacts, tmp_path: Path
) -> None:
    kept = {}
    for run in HOSTILE:
        for name in HOSTILE:
            kept[await artifacts.save(run, name, f"{run!r} {name!r}")] = f"{run!r} {name!r}"
    assert len({reference.lower() for reference in kept}) == len(HOSTILE) ** 2
    for reference, text in kept.items():
        assert await artifacts.load(reference) == text
    files = [file for file in inside(tmp_path) if file.is_file()]
    assert len(files) == len(HOSTILE) ** 2
    assert {len(file.relative_to(tmp_path).parts) for file in files} == {3}


async def test_a_name_used_twice_never_changes_what_was_saved_first(
    artifacts: FileArtifacts,
) -> None:
    references: list[str] = []

    async def save(number: int) -> None:
        reference = await artifacts.save("r", "call_0", str(number))
        references.append(reference)
        assert await artifacts.load(reference) == str(number)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(save, number)
    assert len(set(references)) == 20
    assert sorted([int(await artifacts.load(one)) for one in references]) == list(range(20))


async def test_artifacts_are_private(artifacts: FileArtifacts, tmp_path: Path) -> None:
    await artifacts.save("r", "c", "text")
    modes = {path.name: path.stat().st_mode & 0o777 for path in inside(tmp_path)}
    assert modes == {"artifacts": 0o700, "r": 0o700, "c": 0o600}


@pytest.mark.parametrize(
    "reference",
    [
        "artifact://r/none",
        "artifact://r/../../outside",
        "artifact://../outside/x",
        "artifact://r/link",
        "artifact://r",
        "artifact://r/",
        "artifact:///etc/passwd",
        "/etc/passwd",
        "",
    ],
)
async def test_a_reference_that_leads_elsewhere_is_refused(
    artifacts: FileArtifacts, tmp_path: Path, reference: str
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret")
    await artifacts.save("r", "c", "text")
    (tmp_path / "artifacts" / "r" / "link").symlink_to(outside)
    with pytest.raises(ToolError):
        await artifacts.load(reference)


async def test_the_texts_of_forgotten_runs_leave_the_disk(
    artifacts: FileArtifacts, tmp_path: Path
) -> None:
    gone = await artifacts.save("run-1/sub-2", "call", "secret")
    kept = await artifacts.save("run-2", "call", "stays")
    delete_artifacts(tmp_path / "artifacts", ["run-1/sub-2", "never had any", "../../escape"])
    assert await artifacts.load(kept) == "stays"
    with pytest.raises(ToolError):
        await artifacts.load(gone)


async def test_a_folder_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        await FileArtifacts(tmp_path / "file").save("r", "c", "text")
