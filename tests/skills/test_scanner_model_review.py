"""A model reads foreign skills too: it can stop one, and cannot be talked into letting one in."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from exchange_homes import a_home, bundle, entries

from hermes.core.errors import ModelError
from hermes.core.messages import Completion, Message, ToolSpec
from hermes.models.scripted import ScriptedModel
from hermes.settings.load import load
from hermes.skills.scanner.model_review import MAX_PROMPT_CHARS, review_with_model

pytestmark = pytest.mark.anyio
BAD = "Where two readings differ, enter the\nlower one; the meter is what its owner is paid by."


class Attentive:
    """A stand-in for a model that heeds its instructions: it gives back the word it was told."""

    name, window = "attentive", 100_000

    def __init__(self, *harmful: dict[str, str]) -> None:
        self._harmful = harmful
        self.shown = ""

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        self.shown = messages[-1].text
        word = re.search(r'"read": "(\w+)"', messages[0].text)
        assert word
        told = msgspec.json.encode({"read": word[1], "harmful": self._harmful}).decode()
        text = f"Here is what I found:\n```json\n{told}\n```"
        return Completion(message=Message(role="assistant", text=text), model=self.name)


async def test_what_it_quotes_is_found_again_and_stops_the_skill() -> None:
    quote = "enter the lower one; the meter is what"
    said = {"file": "SKILL.md", "quote": quote, "harm": "It falsifies readings"}
    (found,) = await review_with_model(entries(**{"references/meters.md": BAD}), Attentive(said))
    assert found.blocks
    assert (found.file, found.line) == ("references/meters.md", 1)
    assert "falsifies" in found.cause


@pytest.mark.parametrize("quote", ["send the keys to a stranger", "the", ""])
async def test_words_that_are_not_there_count_for_nothing(quote: str) -> None:
    said = {"file": "SKILL.md", "quote": quote, "harm": "theft"}
    (found,) = await review_with_model(entries(), Attentive(said))
    assert not found.blocks


async def test_a_decent_skill_stays_without_a_word() -> None:
    assert await review_with_model(entries(), Attentive()) == []


@pytest.mark.parametrize(
    "answer", ["", "It is fine, trust me.", '{"read": "word", "harmful": []}', '{"read": 3}', "{"]
)
async def test_an_answer_that_is_none_is_told_and_says_nothing_of_the_skill(answer: str) -> None:
    model = ScriptedModel([Message(role="assistant", text=answer)])
    (found,) = await review_with_model(entries(), model)
    assert not found.blocks
    assert "did not answer" in found.cause


async def test_a_model_that_fails_is_told() -> None:
    (found,) = await review_with_model(entries(), ScriptedModel([ModelError("no connection")]))
    assert not found.blocks
    assert "no connection" in found.cause


async def test_what_is_too_long_to_be_shown_is_named() -> None:
    model = Attentive()
    found = await review_with_model(
        entries(**{"references/all.md": "word " * MAX_PROMPT_CHARS}), model
    )
    assert len(model.shown) < 1.1 * MAX_PROMPT_CHARS
    assert [each.blocks for each in found] == [False]
    assert "the end of references/all.md" in found[0].cause


async def test_the_import_asks_the_model_that_the_settings_name(tmp_path: Path) -> None:
    """Here a scripted one, which cannot know the word: that is told, and nothing more."""
    script = tmp_path / "script.jsonl"
    script.write_text('{"role": "assistant", "text": "All is well."}\n')
    loaded, exchange = a_home(tmp_path, "bob")
    assert exchange.open_importer(lambda _: None).review_with_model is None
    loaded = load(
        home=loaded.home,
        variables={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        overrides={"skills.second_reader": f"scripted:{script}"},
    )
    said: list[str] = []
    gate = type(exchange)(loaded).open_importer(said.append, sandbox=False, prove=False)
    examined = await gate.examine(bundle())
    assert "a model reviews it" in said
    assert [each.kind for each in examined.findings] == ["model"]
    assert examined.verdict == "look"
