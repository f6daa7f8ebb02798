"""A value in a command is one word, whatever it says."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.tools.command_tool import (
    CommandTemplateError,
    TemplateSlot,
    parse_template,
    quote_value,
    render_command,
    reparsing_program,
)

HOSTILE = [
    "; touch hacked",
    "$(touch hacked)",
    "`touch hacked`",
    "' ; touch hacked ; '",
    '" ; touch hacked ; "',
    "a\ntouch hacked\n",
    "| touch hacked",
    "&& touch hacked #",
    "${IFS}touch${IFS}hacked",
    "\\'; touch hacked",
    "*",
    "~",
    "!!",
    "",
    "a b  c",
    "ü – 日本",
    "$'\\x27;touch hacked'",
]


def shell(template: str, **values: str) -> str:
    """What bash makes of it."""
    command = render_command(
        parse_template(template), {name: quote_value(value) for name, value in values.items()}
    )
    ran = subprocess.run(["bash", "-c", command], capture_output=True, check=True, timeout=120)
    return ran.stdout.decode()


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_value_stays_one_word(value: str) -> None:
    assert shell("printf '<%s>' {{x}} --opt={{x}} pre{{x}}post", x=value) == (
        f"<{value}><--opt={value}><pre{value}post>"
    )


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=30))
@settings(max_examples=60, deadline=None)
def test_any_value_stays_one_word(value: str) -> None:
    assert shell("printf '<%s>' {{x}}", x=value) == f"<{value}>"
    assert shell("x={{x}}; printf '<%s>' \"$x\" $(printf '%s' {{x}} | wc -c)", x=value) == (
        f"<{value}><{len(value.encode())}>"
    )


def test_single_braces_and_quotes_of_the_command_itself_are_left_alone() -> None:
    template = """awk '{print $1 " " NF}' {{file}} | sed "s/a'b/${X:-c}/" # a comment"""
    parts = parse_template(template)
    assert [part.name for part in parts if isinstance(part, TemplateSlot)] == ["file"]
    assert render_command(parts, {"file": "F"}) == template.replace("{{file}}", "F")


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ('echo "{{x}}"', 'inside " is not safe'),
        ("echo '{{x}}'", "inside ' is not safe"),
        ("echo `{{x}}`", "inside ` is not safe"),
        ("echo $'{{x}}'", "inside $' is not safe"),
        ("echo a # {{x}}", "inside a comment"),
        ("echo ${{x}}", "$ before a value"),
        ("echo \\{{x}}", "backslash"),
        ('echo "$(echo "{{x}}")"', "inside double quotes cannot be checked"),
        ('echo "`echo "{{x}}"`"', "inside double quotes cannot be checked"),
        ('echo "${A:-"{{x}}"}"', "inside quotes cannot be checked"),
        ("echo $(( {{x}} + 1 ))", "arithmetic"),
        ("(( a = {{x}} ))", "arithmetic"),
        ("[[ {{x}} -eq 1 ]]", "[[ … ]]"),
        ("cat <<EOF\n{{x}}\nEOF", "here-document"),
        ("cat <<'EOF'\n{{x}}\nEOF", "here-document"),
        ("echo {{x}} 'open", "never closed"),
        ("echo {{x}} {{ y z }}", "write {{name}}"),
    ],
)
def test_a_place_where_quoting_does_not_protect_is_refused(template: str, told: str) -> None:
    with pytest.raises(CommandTemplateError) as caught:
        parse_template(template)
    assert told in str(caught.value)


def test_a_here_string_and_a_command_without_values_may_be_anything() -> None:
    assert parse_template("cat <<< {{x}}")
    assert parse_template('echo "$(echo "a")" $((1+1)); [[ -n $X ]] && cat <<E\nx\nE') == (
        'echo "$(echo "a")" $((1+1)); [[ -n $X ]] && cat <<E\nx\nE',
    )


def test_a_place_knows_whether_a_dash_would_make_an_option_there() -> None:
    parts = parse_template("grep {{a}} --x={{b}} -- {{c}}")
    places = [part for part in parts if isinstance(part, TemplateSlot)]
    assert [(place.name, place.starts_word) for place in places] == [
        ("a", True),
        ("b", False),
        ("c", False),
    ]


@pytest.mark.parametrize(
    ("template", "word"),
    [
        ("ssh {{h}} uptime", "ssh"),
        ("sudo su - {{u}}", "su"),
        ("bash -c {{x}}", "-c"),
        ("true; eval {{x}}", "eval"),
        ("ls {{x}} | xargs rm", "xargs"),
        ("sshd-check {{x}}", ""),
    ],
)
def test_programs_that_read_their_words_as_code_are_noticed(template: str, word: str) -> None:
    assert reparsing_program(parse_template(template)) == word
