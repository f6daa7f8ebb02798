"""`hermes token` as a person uses it: created once, listed without its text, revoked."""

import json

from hermes_command import Hermes


def test_a_token_is_shown_once_and_listed_without_its_text(hermes: Hermes) -> None:
    made = json.loads(hermes("token", "add", "--as", "alice", "--right", "read", "--json").stdout)
    assert made["token"].startswith("hermes_")
    listed = hermes("token", "list", "--json").stdout
    assert made["token"] not in listed
    (token,) = json.loads(listed)
    assert (token["person"], token["rights"], token["state"]) == ("alice", ["read"], "valid")
    assert made["token"].encode() not in (hermes.home / "journal.db").read_bytes()


def test_a_revoked_token_is_listed_as_such(hermes: Hermes) -> None:
    made = json.loads(hermes("token", "add", "--json").stdout)
    gone = json.loads(hermes("token", "revoke", made["id"], "--json").stdout)
    assert gone["state"] == "revoked"
    assert json.loads(hermes("token", "list", "--json").stdout) == []
    (token,) = json.loads(hermes("token", "list", "--all", "--json").stdout)
    assert token["state"] == "revoked"


def test_a_wrong_length_of_time_is_refused(hermes: Hermes) -> None:
    done = hermes("token", "add", "--for", "soon")
    assert done.returncode == 2
    assert "is not like 12h" in done.stderr
