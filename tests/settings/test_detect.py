"""With a key its provider answers; with none, the model on board does, and says so."""

from pathlib import Path

from hermes.settings.load import load

DEFAULT = "openrouter:anthropic/claude-sonnet-5.5"


def chosen(home: Path, **variables: str) -> tuple[str, str]:
    loaded = load(home=home, variables=variables)
    return loaded.settings.model.default, str(loaded.origin("model.default"))


def test_the_usual_provider_answers_when_its_key_is_there(tmp_path: Path) -> None:
    both = {"OPENROUTER_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    assert chosen(tmp_path, **both) == (DEFAULT, "default")


def test_another_provider_answers_when_only_its_key_is_there(tmp_path: Path) -> None:
    model, why = chosen(tmp_path, ANTHROPIC_API_KEY="k")
    assert model.startswith("anthropic:")
    assert why == "detected (ANTHROPIC_API_KEY is set)"


def test_without_any_key_the_model_on_board_answers(tmp_path: Path) -> None:
    model, why = chosen(tmp_path)
    assert model == "local:"
    assert "no key is set" in why


def test_what_somebody_chose_is_never_second_guessed(tmp_path: Path) -> None:
    assert chosen(tmp_path, DEFAULT_MODEL="openai:gpt-9")[0] == "openai:gpt-9"
