"""A drill has no secret of the host that it was made from."""

from hermes.gym.incidents.build import MadeUpSecrets
from hermes.policy.redaction.redactor import Redactor

SECRET = "hunter-Sesame-4711"


def test_a_secret_becomes_the_same_made_up_value_in_every_file() -> None:
    conf, other = f"db_password = {SECRET}\nport = 5432\n", f"connect app {SECRET} now\n"
    make_up = MadeUpSecrets(Redactor({}).clean, [conf, other])
    first, second = make_up(conf), make_up(other)
    value = first.split()[2]
    assert SECRET not in first + second
    assert value in second
    assert first.endswith("port = 5432\n")
    assert make_up.count == 1


def test_made_up_values_have_the_form_of_the_secret_and_differ_between_drills() -> None:
    text = f"db_password = {SECRET}\n"
    values = {MadeUpSecrets(Redactor({}).clean, [text])(text).split()[2] for _ in range(2)}
    assert len(values) == 2
    for value in values:
        assert len(value) == len(SECRET)
        assert [letter.isdigit() for letter in value] == [letter.isdigit() for letter in SECRET]


def test_a_text_without_secrets_stays_as_it_is() -> None:
    text = "workers = 4\nname = shop\n"
    make_up = MadeUpSecrets(Redactor({}).clean, [text])
    assert (make_up(text), make_up.count) == (text, 0)
