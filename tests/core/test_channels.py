"""Addresses and the data of buttons survive the way through a platform."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.channels import (
    MAX_PRESS_BYTES,
    Address,
    PressVerb,
    parse_press,
    press_data,
)


@given(st.sampled_from(get_args(PressVerb)), st.text(min_size=1, max_size=12))
def test_a_press_says_the_verb_and_the_id_of_its_button(verb: PressVerb, id: str) -> None:
    assert parse_press(press_data(verb, id)) == (verb, id)


@given(st.text(max_size=80))
def test_data_of_others_is_no_press(data: str) -> None:
    found = parse_press(data)
    assert found is None or press_data(*found) == data


@pytest.mark.parametrize("data", ["", "once", "once:", "yes:4f2a1c", ":4f2a1c", "ONCE:4f2a1c"])
def test_an_unknown_verb_or_a_missing_id_is_no_press(data: str) -> None:
    assert parse_press(data) is None


@pytest.mark.parametrize("id", ["", "x" * MAX_PRESS_BYTES, "🚨" * 15])
def test_data_that_a_platform_would_cut_is_refused(id: str) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        press_data("once", id)


@pytest.mark.parametrize("text", ["telegram", "telegram:-100123", "telegram:-100123:42", "slack"])
def test_an_address_is_read_as_it_is_written(text: str) -> None:
    assert str(Address.parse(text)) == text
