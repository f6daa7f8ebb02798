"""CEL is there when a rule wants it, and only then."""

import subprocess
import sys

import pytest

from hermes.policy.rules.conditions import CONDITION_VARIABLES, CelCondition


@pytest.mark.command
def test_without_a_condition_the_engine_is_not_even_loaded() -> None:
    program = (
        "import sys; from hermes.policy.loading import load_set;"
        "load_set('careful'); load_set('sandboxed'); load_set('observe');"
        "print([name for name in sys.modules if name.split('.')[0] in ('cel', 'cryptography')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.command
def test_loading_the_engine_brings_no_command_line_with_it() -> None:
    program = (
        "import sys; from hermes.policy.rules.conditions import CelCondition; CelCondition('true');"
        "print('typer' in sys.modules, 'rich' in sys.modules);"
        "import cel; print(cel.evaluate('1 + 1'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False False\n2\n", done.stderr


@pytest.mark.parametrize(
    "source",
    [
        "effects.exists(e, e == 'delete')",
        "action.paths.all(path, path.startsWith('/srv'))",
        "target.environment == 'prod' && !(incident.severity in ['P0', 'P1'])",
        "action.command.matches('^kubectl .*') || action.tool == 'x.y'",
        "size(action.argv) > 3 ? now.hour < 18 : true",
    ],
)
def test_ordinary_conditions_are_understood(source: str) -> None:
    assert CelCondition(source).holds(CONDITION_VARIABLES, unsure=True) in (True, False)


@pytest.mark.parametrize(
    "source", ["", "(" * 3000, "nosuch(1)", "now.hour = 3", "'x", "1", "now", "effects", "a" * 5000]
)
def test_what_is_no_condition_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        CelCondition(source)


@pytest.mark.parametrize("source", ["action.argv[9] == 'x'", "1 / (now.hour - now.hour) == 1"])
def test_what_cannot_be_evaluated_is_unsure(source: str) -> None:
    condition = CelCondition(source)
    assert condition.holds(CONDITION_VARIABLES, unsure=True) is True
    assert condition.holds(CONDITION_VARIABLES, unsure=False) is False
