"""A table of tools whose layers are asked each time."""

import pytest

from hermes.core.protocols import Tool
from hermes.tools.executor import LayeredTools
from hermes.tools.skills import skill_call, skill_create


def test_what_is_put_into_a_layer_later_is_there() -> None:
    made: dict[str, Tool] = {}
    table = LayeredTools({"a": skill_call}, made)
    outer = LayeredTools(table, {"z": skill_call})
    assert list(outer) == ["a", "z"]
    made["b"] = skill_create
    assert list(outer) == ["a", "b", "z"]
    assert outer["b"] is skill_create
    assert len(outer) == 3


def test_a_later_layer_stands_before_an_earlier_one() -> None:
    table = LayeredTools({"a": skill_call}, {"a": skill_create})
    assert table["a"] is skill_create
    assert len(table) == 1
    with pytest.raises(KeyError):
        table["b"]
