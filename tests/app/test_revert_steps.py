"""The steps of a revert are joined, so that people are asked once."""

from hermes.app.experiments import join_steps
from hermes.sre.cause import CauseFixStep


def test_a_file_and_its_restart_are_one_command() -> None:
    copied = CauseFixStep(command="cp a b", undo="cp c b", recent_by="ann")
    restarted = CauseFixStep(command="x; y", undo="true")
    assert join_steps([copied, restarted]) == (
        CauseFixStep(command="cp a b && { x; y; }", undo="cp c b", recent_by="ann"),
    )


def test_the_last_step_is_undone_first() -> None:
    steps = [CauseFixStep(command=f"do {each}", undo=f"undo {each}") for each in (1, 2)]
    assert join_steps(steps)[0].undo == "undo 2; undo 1"


def test_a_file_that_is_moved_away_stays_a_step_of_its_own() -> None:
    moved = CauseFixStep(command="mv -- a b", undo="mv -- b a")
    restarted = CauseFixStep(command="x", undo="true")
    assert join_steps([moved, restarted, restarted]) == (
        moved,
        CauseFixStep(command="x && { x; }", undo="true"),
    )
