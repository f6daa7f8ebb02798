"""People are told what was shown: by experiments without a proof, and by probes of playbooks."""

import pytest

from hermes.core.events.experiments import ExperimentRan, ExperimentsEnded
from hermes.sre.cause import CauseResult, unfinished_text
from hermes.sre.reports.experiments import ended_text, experiment_text
from hermes.sre.responders.playbooks import found_facts

LINK, CONF, MOTD = "file /opt/app/current", "file /etc/app.conf", "file /etc/motd"


def ran(
    purpose: str, outcome: str, *, kept: tuple[str, ...] = (), reverted: tuple[str, ...] = ()
) -> ExperimentRan:
    return ExperimentRan(
        run="r", incident="i", number=1, purpose=purpose, outcome=outcome, kept=kept,
        reverted=reverted,
    )  # fmt: skip


REPRODUCED = [ran("reproduce", "fails"), ran("revert-all", "passes", reverted=(LINK, CONF, MOTD))]
NARROWED = [
    *REPRODUCED,
    ran("keep-only", "fails", kept=(LINK, CONF, MOTD)),
    ran("keep-only", "fails", kept=(LINK, CONF)),
    ran("keep-only", "passes", kept=(MOTD,)),
]


@pytest.mark.parametrize(
    ("experiments", "expected"),
    [
        ([], ""),
        ([ran("reproduce", "passes"), ran("revert-all", "passes")][:1], ""),
        (REPRODUCED, "on a copy with all changes reverted the checks pass"),
        (
            NARROWED,
            "on a copy with all changes reverted the checks pass, and fail with only "
            f"{LINK}, {CONF}",
        ),
        (
            [
                *NARROWED,
                ran("revert-only", "passes", reverted=(LINK, CONF)),
                ran("revert-only", "passes", reverted=(LINK,)),
                ran("revert-only", "fails", reverted=(CONF,)),
            ],
            f"on a copy the checks pass with only this reverted: {LINK}",
        ),
    ],
)
def test_the_smallest_that_helped_is_named(experiments: list[ExperimentRan], expected: str) -> None:
    assert unfinished_text(experiments) == expected


@pytest.mark.parametrize("count", [0, 19])
def test_experiments_that_were_stopped_are_not_called_impossible(count: int) -> None:
    result = CauseResult(status="impossible", why="not finished", experiments=count)
    event = ExperimentsEnded(
        run="r", incident="i", status="impossible", why="not finished", experiments=count
    )
    none = count == 0
    assert result.summary.startswith("no experiments") == none
    assert ended_text(event).startswith("no experiments") == none


def test_several_changes_are_not_called_one() -> None:
    assert "only these changes: " in experiment_text(ran("keep-only", "fails", kept=(LINK, CONF)))
    assert "only this change: " in experiment_text(ran("keep-only", "fails", kept=(LINK,)))


def test_the_cause_of_a_playbook_names_what_was_found_on_this_host() -> None:
    found = {"unit": "shop.service", "port": "7739", "name": "db.corp", "was": "127.0.0.48"}
    assert found_facts(found) == " (found here: name db.corp, was 127.0.0.48)"
    assert found_facts({"unit": "shop.service", "was": "x" * 200}) == ""
