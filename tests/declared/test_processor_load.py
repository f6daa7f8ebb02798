"""Programs of low priority count in the load, but others do not wait for them."""

from pathlib import Path

from hermes.declared.experiments.processor_load import SHORTEST_SPAN_S, ProcessorWaits


def measured(tmp_path: Path, before: str, after: str) -> float | None:
    scheduled = tmp_path / "schedstat"
    scheduled.write_text(before)
    times = [0.0, SHORTEST_SPAN_S]
    waits = ProcessorWaits(scheduled, clock=lambda: times.pop(0))
    assert waits.factor() is None, "nothing to compare with yet"
    scheduled.write_text(after)
    return waits.factor()


def test_a_process_that_does_not_wait_is_not_delayed(tmp_path: Path) -> None:
    assert measured(tmp_path, "1000 500 3", "2000 500 9") == 1.0


def test_a_process_that_waits_three_times_as_long_as_it_runs_takes_four_times_as_long(
    tmp_path: Path,
) -> None:
    assert measured(tmp_path, "1000 500 3", "2000 3500 9") == 4.0


def test_a_process_that_did_not_run_says_nothing(tmp_path: Path) -> None:
    assert measured(tmp_path, "1000 500 3", "1000 500 3") is None


def test_a_kernel_without_this_count_says_nothing(tmp_path: Path) -> None:
    assert ProcessorWaits(tmp_path / "missing").factor() is None
