"""The work of a scan grows with the size of a program, and not with its square."""

import ast
from typing import Any

import pytest

from hermes.skills.scanner.purpose import DeclaredPurpose
from hermes.skills.scanner.rules.logic_bombs import check_logic_bombs

CHECK = "if uid_{n} == 'anna' and getpass.getuser() == uid_{n}:\n    sys.exit(1)\n"


def count_walked_nodes(conditions: int, monkeypatch: pytest.MonkeyPatch) -> int:
    text = "import getpass, sys\n" + "".join(CHECK.format(n=n) for n in range(conditions))
    walked = 0
    walk = ast.walk

    def counting_walk(node: ast.AST) -> Any:
        nonlocal walked
        for each in walk(node):
            walked += 1
            yield each

    monkeypatch.setattr(ast, "walk", counting_walk)
    list(check_logic_bombs(f"scripts/{conditions}.py", text, DeclaredPurpose()))
    monkeypatch.setattr(ast, "walk", walk)
    return walked


def test_the_conditions_of_a_program_do_not_each_walk_the_whole_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few, many = count_walked_nodes(40, monkeypatch), count_walked_nodes(400, monkeypatch)
    assert 0 < few < many < 12 * few
