"""<home>/.env: read by hand, written whole, shown to nobody."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import SettingsError
from hermes.settings import env_file
from hermes.settings.secrets import Secrets, is_secret, mask_secret


def values(text: str) -> dict[str, str]:
    entries, problems = env_file.parse_env(text, Path(".env"))
    assert not problems
    return {entry.name: entry.value for entry in entries}


def test_quotes_exports_and_comments_are_understood() -> None:
    text = """
# a comment
PLAIN=value # and why
export EXPORTED = spaced
SINGLE='as $it "stands" # here'
DOUBLE="line\\nbreak and \\"quote\\""
EMPTY=
URL=https://host/path#fragment
MANY="first
second"
LAST=1
"""
    assert values(text) == {
        "PLAIN": "value",
        "EXPORTED": "spaced",
        "SINGLE": 'as $it "stands" # here',
        "DOUBLE": 'line\nbreak and "quote"',
        "EMPTY": "",
        "URL": "https://host/path#fragment",
        "MANY": "first\nsecond",
        "LAST": "1",
    }


def test_a_line_that_is_no_assignment_is_named() -> None:
    entries, problems = env_file.parse_env("A=1\nthis is not\nB=2\n", Path(".env"))
    assert [entry.name for entry in entries] == ["A", "B"]
    assert [problem.where for problem in problems] == [".env:2"]


def test_a_quote_that_is_never_closed_is_named_and_swallows_nothing_on_writing(
    tmp_path: Path,
) -> None:
    (tmp_path / ".env").write_text('A="never closed\nB=2\n')
    with pytest.raises(SettingsError, match=r"\.env:1.*never closed"):
        env_file.set_variable(tmp_path, "C", "3")
    assert (tmp_path / ".env").read_text() == 'A="never closed\nB=2\n'


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40))
def test_whatever_is_written_is_read_back(value: str) -> None:
    line = f"NAME={env_file.quote_value(value)}\n"
    # Bare carriage returns cannot stand in a line; the writer is asked for keys, not for files.
    if "\r" not in value:
        assert values(line) == {"NAME": value}


def test_setting_a_variable_keeps_the_rest_and_leaves_one_of_it(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# mine\nA=1\nKEY=old\n\nB=2\nKEY=older\n")
    env_file.set_variable(tmp_path, "KEY", "new value")
    assert (tmp_path / ".env").read_text() == '# mine\nA=1\n\nB=2\nKEY="new value"\n'
    env_file.set_variable(tmp_path, "KEY", None)
    assert (tmp_path / ".env").read_text() == "# mine\nA=1\n\nB=2\n"


def test_the_file_is_for_its_owner_only_even_if_it_was_not(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("A=1\n")
    file.chmod(0o644)
    assert env_file.read_env_file(tmp_path).exposed
    env_file.set_variable(tmp_path, "B", "2")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not env_file.read_env_file(tmp_path).exposed


def test_secrets_show_nothing_when_printed() -> None:
    secrets = Secrets({"OPENAI_API_KEY": "sk-verysecret123"})
    assert "sk-" not in f"{secrets} {secrets!r} {[secrets]}"
    assert secrets["OPENAI_API_KEY"] == "sk-verysecret123"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("sk-or-v1-0123456789abcd", "sk-…abcd"),
        ("AKIA0123456789ABCD", "AK…ABCD"),
        ("short", "…"),
        ("", ""),
    ],
)
def test_a_mask_shows_which_key_it_is_and_no_more(value: str, shown: str) -> None:
    assert mask_secret(value) == shown


def test_a_name_tells_whether_it_is_secret() -> None:
    assert is_secret("OPENROUTER_API_KEY")
    assert is_secret("GITHUB_TOKEN")
    assert not is_secret("SSL_CERT_PATH")
    assert not is_secret("MONKEY")
