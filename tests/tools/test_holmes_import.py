"""Toolsets in the format of HolmesGPT become declared tools, or a reason why not."""

from pathlib import Path

import pytest

from hermes.tools.command_tool import CommandTool
from hermes.tools.holmes_import import TranslationError, render_tools, translate_toolsets
from hermes.tools.yaml_tools import load_tool_folder

FILE = """
toolsets:
  shop/core:
    description: Tools of a shop
    prerequisites:
      - command: "shopctl version"
      - env: [SHOP_TOKEN]
    tools:
      - name: "shop-orders"
        description: >
          List the orders
          of a customer
        command: "shopctl orders {{ CUSTOMER }}{% if region %} --region {{ region }}{% endif %}"
      - name: shop_all
        command: "shopctl list {% if verbose %}--verbose{% endif %}"
      - name: shop_find
        script: |
          #!/bin/bash
          shopctl find --name="{{ name }}" --since {{ since | default('1h') }}
      - {name: shop_shell, command: "bash -c {{ text }}"}
      - {name: shop_quoted, command: "echo 'order {{ id }} is late'"}
      - {name: shop_loop, command: "{% for x in y %}a{% endfor %}"}
      - {name: shop_else, command: "a {% if x %}-x {{ x }}{% else %}-y{% endif %}"}
      - {name: shop_other, command: "a {% if x %}-y {{ y }}{% endif %}"}
      - {name: shop_filter, command: "a {{ x | upper }}"}
      - {name: shop_nothing}
      - {name: shop_all, command: "a"}
"""


def test_what_can_be_translated_loads_and_the_rest_is_explained(tmp_path: Path) -> None:
    found = translate_toolsets(FILE, "shop.yaml")
    assert [each.name for each in found.tools] == ["shop_orders", "shop_all", "shop_find"]
    reasons = dict(found.refused)
    assert "reads its words as code" in reasons["shop_shell"]
    assert "is not safe" in reasons["shop_quoted"]
    assert reasons["shop_loop"] == "a condition or loop around more than one option"
    assert "more than one option" in reasons["shop_else"]
    assert reasons["shop_other"] == "the option of y depends on x"
    assert reasons["shop_filter"] == "a value with a filter"
    assert reasons["shop_nothing"] == "it has neither a command nor a script"
    assert "already" in reasons["shop_all"]
    (tmp_path / "shop.yaml").write_text(render_tools(found, "shop.yaml"))
    loaded = load_tool_folder(tmp_path)
    assert not loaded.problems
    orders = loaded.tools["shop_orders"]
    assert isinstance(orders, CommandTool)
    assert orders.spec.description == "List the orders of a customer"
    assert orders.needs.programs == ("shopctl",)
    assert orders.needs.variables == ("SHOP_TOKEN",)
    assert orders.command({"customer": "a; rm -rf /"}).strip() == "shopctl orders 'a; rm -rf /'"
    with_region = orders.command({"customer": "a", "region": "eu"})
    assert with_region == "shopctl orders a --region eu"
    every = loaded.tools["shop_all"]
    assert isinstance(every, CommandTool)
    assert every.command({"verbose": True}).split() == ["shopctl", "list", "--verbose"]
    find = loaded.tools["shop_find"]
    assert isinstance(find, CommandTool)
    assert find.command({"name": "x y"}) == "shopctl find --name='x y' --since 1h"


def test_the_older_form_is_a_list() -> None:
    text = "toolsets:\n- name: a/b\n  tools:\n  - {name: ls_home, command: ls}\n"
    assert translate_toolsets(text, "f").tools[0].name == "ls_home"


@pytest.mark.parametrize("text", ["", "[]", "tools: []", "toolsets: 3"])
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(TranslationError, match="is it a file of HolmesGPT"):
        translate_toolsets(text, "f.yaml")


def test_odd_entries_are_skipped_or_named() -> None:
    text = "toolsets: {a: null, b: {tools: [1, {name: '---', command: ls}]}, c: {tools: 0}}"
    assert translate_toolsets(text, "f").tools == ()
