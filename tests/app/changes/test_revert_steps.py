"""The steps of a revert are joined, so that people are asked once; data is left to people."""

import pytest

from hermes.app.changes.cause_revert import _is_data, activation_steps, join_steps
from hermes.declared.experiments.rehearsal import Activation, RehearsedRevert
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.trial import Revert
from hermes.declared.revert import RELOAD_UNITS, join_undos
from hermes.declared.state import Item, ItemId, StateChange
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


def test_units_are_read_again_after_their_files_were_put_back() -> None:
    steps = [
        CauseFixStep(command="cp a b", undo="cp c b"),
        CauseFixStep(command=RELOAD_UNITS, undo=RELOAD_UNITS),
        CauseFixStep(command="systemctl restart shop", undo="true"),
    ]
    assert join_steps(steps)[0].undo == f"cp c b; {RELOAD_UNITS}"
    assert join_undos([each.undo for each in steps]) == f"cp c b; {RELOAD_UNITS}"


def test_a_file_that_is_moved_away_stays_a_step_of_its_own() -> None:
    moved = CauseFixStep(command="mv -- a b", undo="mv -- b a")
    restarted = CauseFixStep(command="x", undo="true")
    assert join_steps([moved, restarted, restarted]) == (
        moved,
        CauseFixStep(command="x && { x; }", undo="true"),
    )


def test_a_service_that_is_started_restarts_only_to_read_other_files() -> None:
    restart = Activation(kind="restart", target="shop", action="supervisorctl restart shop")
    rehearsed = RehearsedRevert(works=True, activations=(restart,))
    copied = CauseFixStep(command="cp a b", undo="cp c b")
    assert activation_steps(rehearsed, {"shop"}, ()) == []
    steps = activation_steps(rehearsed, {"shop"}, [copied])
    assert [each.command for each in steps] == ["supervisorctl restart shop"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/var/lib/postgresql/15/main/postgresql.conf", False),
        ("/var/lib/postgresql/15/main/base/5/1259", True),
        ("/srv/shop/data/orders.json", True),
    ],
)
def test_settings_beside_data_are_no_data(path: str, expected: bool) -> None:
    change = StateChange(ItemId("file", path), Item("a"), Item("b"))
    assert _is_data(Revert(suspect=Suspect(change=change))) == expected
