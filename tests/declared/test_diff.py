"""What is shown of a change: the difference, and no secret."""

from pathlib import Path

import pytest

from hermes.declared.diff import describe_change, hide_secrets, redacted_diff
from hermes.declared.state import Item, ItemId, StateChange
from hermes.declared.store import StateStore
from hermes.policy.redaction.redactor import Redactor

REDACT = Redactor({"HERMES_KEY": "own-secret-value-12345"}).clean


def change_of(
    store: StateStore, before: bytes | None, after: bytes | None, key: str = "/etc/app.conf"
) -> StateChange:
    attributes = {"type": "file", "mode": "644"}
    items = [
        None if each is None else Item(store.keep(each), attributes) for each in (before, after)
    ]
    return StateChange(ItemId("file", key), items[0], items[1])


def test_a_diff_shows_lines_with_their_context(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    change = change_of(store, b"a\nport = 8080\nb\n", b"a\nport = 80\nb\n")
    assert describe_change(change, store, REDACT).splitlines() == [
        "--- /etc/app.conf (before)",
        "+++ /etc/app.conf (after)",
        "@@ -1,3 +1,3 @@",
        " a",
        "-port = 8080",
        "+port = 80",
        " b",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "db_password = tiger-77-blue",
        "DB_PASS: tiger-77-blue",
        'api_key: "tiger-77-blue"',
        "requirepass tiger-77-blue",
        "export TOKEN=tiger-77-blue",
        "url = postgres://app:tiger-77-blue@db/app",
        "Environment=AUTH_SECRET=tiger-77-blue",
        '  "clientSecret": "tiger-77-blue",',
        "smtp_pwd=tiger-77-blue",
        "dsn = host=db password=tiger-77-blue",
    ],
)
def test_values_of_secret_keys_are_hidden_and_the_line_is_still_a_difference(line: str) -> None:
    other = line.replace("tiger-77-blue", "horse-99-green")
    shown = redacted_diff(f"x = 1\n{line}\n", f"x = 1\n{other}\n", REDACT, "f")
    text = "\n".join(shown)
    assert "tiger" not in text and "horse" not in text
    assert len([each for each in shown if each.startswith("-") and "---" not in each]) == 1
    assert len([each for each in shown if each.startswith("+") and "+++" not in each]) == 1


def test_plain_settings_of_similar_names_stay_readable() -> None:
    text = "PasswordAuthentication no\ntoken_ttl = 300\nauth_file = /etc/app/users\nport = 80\n"
    assert hide_secrets(text) == text


def test_a_private_key_is_hidden_whole(tmp_path: Path) -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0B\n" * 5
    key += "-----END PRIVATE KEY-----\n"
    text = "\n".join(redacted_diff("a = 1\n", f"a = 1\n{key}", REDACT, "f"))
    assert "MIIEvQ" not in text


def test_secret_files_binary_and_unknown_content_are_not_shown(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    secret = change_of(store, b"a=1\n", b"a=2\n", "/opt/app/.env")
    assert "is not shown" in describe_change(secret, store, REDACT)
    binary = change_of(store, b"\0\1", b"\0\2")
    assert "not text" in describe_change(binary, store, REDACT)
    unknown = StateChange(ItemId("file", "/x"), Item("ab" * 32), Item("cd" * 32))
    assert "only its digest" in describe_change(unknown, store, REDACT)


def test_own_secrets_are_removed_wherever_they_stand(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    change = change_of(store, b"", b"note own-secret-value-12345 here\n")
    assert "own-secret-value" not in describe_change(change, store, REDACT)
