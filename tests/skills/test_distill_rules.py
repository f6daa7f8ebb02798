"""What becomes of a run by rules alone: which commands, which parameters, which signs."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from compiler_fixtures import scripted
from verified_run import COMMANDS, LOG, WRITE, a_run

from hermes.core.protocols import JournalRecord
from hermes.skills.distill.distillation import (
    DistilledSkill,
    distill_run,
    improve_with_model,
    write_distilled_skill,
)
from hermes.skills.distill.literals import (
    DistilledParameter,
    find_output_parameters,
    insert_placeholders,
)
from hermes.skills.distill.rehearsal import CommandOutput, RehearsalResult
from hermes.skills.distill.verified_run import (
    DistillationError,
    RunCommand,
    read_verified_run,
)
from hermes.skills.playbook.parameters import fill_template, find_quoted_placeholder

pytestmark = pytest.mark.anyio


async def host(commands: Sequence[str]) -> RehearsalResult:
    """A host on which the setting and the restart matter, and nothing else."""
    fixed = running = False
    seen: list[CommandOutput] = []
    for command in commands:
        if command.startswith("sed"):
            fixed = True
        elif "restart" in command:
            running = fixed
        if command.startswith("systemctl is-active"):
            seen.append(CommandOutput(0, "active") if running else CommandOutput(3, "failed"))
        elif command.startswith("journalctl"):
            seen.append(CommandOutput(0, LOG))
        elif command.startswith("cat"):
            seen.append(CommandOutput(0, "pool = 24"))
        else:
            seen.append(CommandOutput(0, ""))
    return RehearsalResult(solved=running, outputs=tuple(seen))


async def test_a_rehearsed_run_becomes_a_playbook_without_the_cases_own_names() -> None:
    made = await distill_run(
        a_run(undo="cp /etc/orders/app.ini.old /etc/orders/app.ini"), run_rehearsal=host
    )
    playbook = made.parse()
    steps = [step.command for step in playbook.steps]
    assert steps == [
        "sed -i 's/^pool = .*/pool = '{{pool-number-2}}'/' {{fatal-path}}",
        "systemctl restart {{service}}",
    ]
    assert playbook.steps[0].undo == "cp {{fatal-path}}.old {{fatal-path}}"
    assert playbook.parameters["service"].labels == ("service",)
    assert playbook.parameters["fatal-path"].source == playbook.signature.probes[0].name
    assert playbook.signature.probes[0].expect.regex.startswith("FATAL")
    assert [check.expect.contains for check in playbook.verify] == ["active"]
    assert "orders" not in made.playbook
    assert "touch /srv/i-was-here" in made.case
    assert "touch" not in made.playbook


async def test_what_it_would_run_is_declared(tmp_path: Path) -> None:
    made = await distill_run(a_run(), run_rehearsal=host)
    write_distilled_skill(made, tmp_path / "bad-number")
    text = (tmp_path / "bad-number" / "SKILL.md").read_text()
    assert "capabilities: 'commands: sed, systemctl'" in text


async def test_without_a_rehearsal_nothing_is_dropped() -> None:
    made = await distill_run(a_run(), name="given-name")
    assert made.name == "given-name"
    assert [step.command.split()[0] for step in made.parse().steps] == [
        "touch",
        "sed",
        "systemctl",
    ]


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (a_run(ok=False), "not verified"),
        (a_run()[1:], "has no alert"),
        (a_run([COMMANDS[0], COMMANDS[-1]]), "changed nothing"),
        (a_run([("x", "", 0, WRITE)], tool="write_file"), "which a playbook cannot repeat"),
        (a_run([("false", "no", 1, WRITE)]), "changed nothing"),
        (a_run(COMMANDS[:-1]), "distinguishes broken from fixed"),
    ],
)
async def test_a_run_that_cannot_be_repeated_is_refused_and_says_why(
    records: list[JournalRecord], why: str
) -> None:
    with pytest.raises(DistillationError, match=why):
        await distill_run(records)


async def test_a_fix_that_does_not_hold_again_is_no_skill() -> None:
    async def never(commands: Sequence[str]) -> RehearsalResult:
        return RehearsalResult(solved=False)

    with pytest.raises(DistillationError, match="does not hold"):
        await distill_run(a_run(), run_rehearsal=never)


class Moody:
    """The host above, which says the opposite in some of its rehearsals.

    In those named `empty` the settings are gone for a moment when they are looked at last.
    """

    def __init__(self, *bad: int, empty: tuple[int, ...] = ()) -> None:
        self.count, self._bad, self._empty = 0, bad, empty

    async def __call__(self, commands: Sequence[str]) -> RehearsalResult:
        self.count += 1
        told = await host(commands)
        seen = list(told.outputs)
        if self.count in self._empty:
            looks = [n for n, command in enumerate(commands) if command.startswith("cat")]
            seen[looks[-1]] = CommandOutput(0, "")
        solved = told.solved is not (self.count in self._bad)
        return RehearsalResult(solved=solved, outputs=tuple(seen))


def steps_of(made: DistilledSkill) -> list[str]:
    return [step.command.split()[0] for step in made.parse().steps]


@pytest.mark.parametrize("bad", range(1, 12))
async def test_one_mood_of_a_host_neither_drops_nor_keeps_a_step(bad: int) -> None:
    moody = Moody(bad)
    made = await distill_run(a_run(), run_rehearsal=moody)
    assert steps_of(made) == ["sed", "systemctl"]
    assert [check.expect.contains for check in made.parse().verify] == ["active"]
    assert 8 <= moody.count <= 9


async def test_a_fix_that_holds_only_now_and_then_is_no_skill() -> None:
    quiet = Moody()
    await distill_run(a_run(), run_rehearsal=quiet)
    last = quiet.count
    with pytest.raises(DistillationError, match="has to hold in 2"):
        await distill_run(a_run(), run_rehearsal=Moody(last - 1, last))


async def test_what_one_rehearsal_alone_shows_is_no_sign() -> None:
    steady = Moody()
    expected = await distill_run(a_run(), run_rehearsal=steady)
    first, second = steady.count - 1, steady.count
    once = await distill_run(a_run(), run_rehearsal=Moody(empty=(first,)))
    twice = await distill_run(a_run(), run_rehearsal=Moody(empty=(first, second)))
    assert once.playbook == expected.playbook
    assert twice.playbook != expected.playbook


def test_the_story_parts_looks_from_changes() -> None:
    story = read_verified_run(a_run())
    assert [deed.command.split()[0] for deed in story.checks_before] == ["journalctl", "cat"]
    assert [deed.restarts for deed in story.changes] == [False, False, True]
    assert [deed.command for deed in story.checks_after] == ["systemctl is-active orders"]


def test_a_value_inside_quotes_stays_one_word_whatever_it_is() -> None:
    given = [
        DistilledParameter(name="v", value="24", kind="word"),
        DistilledParameter(name="s", value="orders", kind="word"),
    ]
    for command in ("echo 'pool = 24' > /etc/orders.d/x", 'grep -q "orders 24" file', "kill 24"):
        made = insert_placeholders(command, given)
        assert "24" not in made and "orders" not in made
        assert find_quoted_placeholder(made) == ""
        assert fill_template(made, {"v": "24", "s": "orders"}).replace("'", "").replace(
            '"', ""
        ) == (command.replace("'", "").replace('"', ""))


async def test_a_model_may_widen_the_words_and_not_touch_the_steps() -> None:
    made = await distill_run(a_run(), run_rehearsal=host)
    better = made.playbook.replace("summary: a bad", "summary: any bad")
    answer = f"```markdown\n# Better\n```\n```yaml\n{better}```\n"
    improved, why = await improve_with_model(made, scripted(answer))
    assert (why, improved.parse().summary) == ("", "any bad number in the settings")
    worse = f"```markdown\n# X\n```\n```yaml\n{better.replace('restart', 'stop')}```\n"
    same, why = await improve_with_model(made, scripted(worse, "no blocks"))
    assert same == made
    assert "```markdown" in why
    same, why = await improve_with_model(made, scripted())
    assert same == made
    assert "the model failed" in why


@pytest.mark.parametrize(
    ("printed", "name", "value"),
    [
        ("scan_every_s /etc/ledger/settings.ini", "scan_every_s", "/etc/ledger/settings.ini"),
        ("BASKET_DEFAULT_LOCALE = de_DE", "BASKET_DEFAULT_LOCALE", "de_DE"),
    ],
)
def test_a_value_beside_a_name_with_underscores_is_found_beside_any_name(
    printed: str, name: str, value: str
) -> None:
    look = RunCommand(seq=1, command="look", output=printed)
    commands = [f"set {name} {value}", f"{name}={value}"]
    found = find_output_parameters([look], commands, (), (name,))
    pattern = next(each.pattern for each in found if each.value == value)
    assert not any(part in pattern for part in name.split("_") if len(part) > 1)
