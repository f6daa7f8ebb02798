"""Many prompts: one bad one is only itself, and what is on the disk is never asked again."""

import json
from pathlib import Path
from typing import Any

import pytest

from hermes.core.errors import HermesError, SettingsError
from hermes.gym.training.batch import (
    BatchFolder,
    BatchPlan,
    BatchPrompt,
    BatchSummary,
    prompt_key,
    read_dataset,
    run_batch,
)

pytestmark = pytest.mark.anyio
PLAN = BatchPlan(dataset_file="x", run_name="r")


def dataset(folder: Path, *prompts: str) -> Path:
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": each, "level": 1}) + "\n\n" for each in prompts))
    return file


class Agent:
    """Says the prompt back, as so many lines as it has words."""

    def __init__(self, *, fails: str = "") -> None:
        self.asked: list[str] = []
        self.fails = fails

    async def __call__(self, job: BatchPrompt) -> list[dict[str, Any]]:
        self.asked.append(job.prompt)
        if self.fails and self.fails in job.prompt:
            raise HermesError(f"no answer to {job.prompt}")
        stats = {"terminal": {"count": 1, "success": 1}}
        return [
            {"said": word, "completed": True, "tool_stats": stats} for word in job.prompt.split()
        ]


async def run(
    folder: Path, file: Path, agent: Agent, workers: int = 2, **more: Any
) -> BatchSummary:
    jobs = read_dataset(file, batch_size=2)
    return await run_batch(PLAN, jobs, agent, BatchFolder(folder / "r"), workers=workers, **more)


def combined(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "r" / "trajectories.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


async def test_results_are_in_files_by_batch_and_together_in_order(tmp_path: Path) -> None:
    shown: list[tuple[int, int]] = []
    summary = await run(
        tmp_path,
        dataset(tmp_path, "a b", "c", "d"),
        Agent(),
        progress=lambda done, total: shown.append((done, total)),
    )
    assert [each["said"] for each in combined(tmp_path)] == ["a", "b", "c", "d"]
    names = sorted(file.name for file in (tmp_path / "r").glob("[a-z]*"))
    assert names == [
        "batch_0000.jsonl",
        "batch_0001.jsonl",
        "checkpoint.json",
        "statistics.json",
        "trajectories.jsonl",
    ]
    assert (summary.prompts, summary.done_now, summary.examples, summary.completed) == (3, 3, 4, 4)
    assert summary.tool_stats == {"terminal": {"count": 4, "success": 4}}
    assert (shown[0], shown[-1]) == ((0, 3), (3, 3))
    assert json.loads((tmp_path / "r" / "checkpoint.json").read_text())["done"] == 3


async def test_a_failed_prompt_is_reported_and_run_again(tmp_path: Path) -> None:
    file = dataset(tmp_path, "a", "bad", "c")
    summary = await run(tmp_path, file, Agent(fails="bad"))
    assert (summary.failed, summary.errors) == (1, ("no answer to bad",))
    assert json.loads((tmp_path / "r" / "failed.jsonl").read_text())["prompt"] == "bad"
    again = Agent()
    summary = await run(tmp_path, file, again, resume=True)
    assert again.asked == ["bad"]
    assert (summary.failed, summary.done_before) == (0, 2)
    assert not (tmp_path / "r" / "failed.jsonl").exists()


async def test_going_on_goes_by_the_text_of_a_prompt_and_not_by_its_place(tmp_path: Path) -> None:
    await run(tmp_path, dataset(tmp_path, "a", "b", "c"), Agent())
    again = Agent()
    await run(tmp_path, dataset(tmp_path, "new", "c", "a", "a"), again, resume=True)
    assert sorted(again.asked) == ["a", "new"], "the second a is another sample of it"
    assert [each["said"] for each in combined(tmp_path)] == ["new", "c", "a", "a"]


@pytest.mark.parametrize("cut", [1, 40, 150])
async def test_what_a_kill_tore_is_done_again_and_the_rest_is_not(tmp_path: Path, cut: int) -> None:
    file = dataset(tmp_path, "a", "b b b")
    await run(tmp_path, file, Agent(), workers=1)  # one after the other: the long one is last
    torn = tmp_path / "r" / "batch_0000.jsonl"
    torn.write_bytes(torn.read_bytes()[:-cut])
    again = Agent()
    await run(tmp_path, file, again, resume=True)
    assert len(again.asked) == 1
    assert sorted(each["said"] for each in combined(tmp_path)) == ["a", "b", "b", "b"]


async def test_results_are_not_written_over_by_accident(tmp_path: Path) -> None:
    file = dataset(tmp_path, "a")
    await run(tmp_path, file, Agent())
    with pytest.raises(SettingsError, match="--resume"):
        await run(tmp_path, file, Agent())


async def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    other = BatchFolder(tmp_path / "r")
    other.open(resume=True)
    with pytest.raises(SettingsError, match="another process"):
        await run(tmp_path, dataset(tmp_path, "a"), Agent(), resume=True)
    other.close()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no prompts"),
        ("{\n", ":1: not a JSON object"),
        ('{"prompt": "a"}\n{"question": "b"}', ':2: there is no "prompt"'),
        ('{"prompt": 7}', ':1: there is no "prompt"'),
    ],
)
async def test_a_dataset_that_is_wrong_is_named_by_line(
    tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(text)
    with pytest.raises(SettingsError) as error:
        read_dataset(file, batch_size=2)
    assert says in str(error.value)


async def test_max_samples_limits_the_prompts(tmp_path: Path) -> None:
    jobs = read_dataset(dataset(tmp_path, "a", "b", "c"), batch_size=1, max_samples=2)
    assert [job.prompt for job in jobs] == ["a", "b"]
    assert jobs[0].extra == {"level": 1}
    assert jobs[1].key == prompt_key("b")
