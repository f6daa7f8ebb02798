"""Commands in places that the parser takes for text: patterns, defaults, subscripts."""

import pytest
from reading import effects, read

INSIDE = "touch /srv/harm"
HIDDEN = (
    f"x=a; echo ${{x#$({INSIDE})}}",
    f"x=a; echo ${{x%%$({INSIDE})}}",
    f"x=a; echo ${{x^^$({INSIDE})}}",
    f"x=a; echo ${{x,,`{INSIDE}`}}",
    f"echo ${{z:-`{INSIDE}`}}",
    f"echo ${{z:=`{INSIDE}`}}",
    f"echo ${{z:+`{INSIDE}`}}",
    f"echo ${{z/a/`{INSIDE}`}}",
    f"echo ${{z:-<({INSIDE})}}",
    f"echo \"${{z:-'$({INSIDE})'}}\"",
    f"cat <<E\n${{z:-`{INSIDE}`}}\nE\n",
    f"wait -p 'a[$({INSIDE})]' $!",
)
PATTERNS = (
    f"case x in $({INSIDE})) ;; esac",
    f"case x in a|$({INSIDE})) ;; esac",
    f"case x in `{INSIDE}`) ;; esac",
    f"case x in <({INSIDE})) ;; esac",
)
QUOTED = (
    "echo 'a `b` $(c)'",
    "grep 'rm `x`' f",
    'echo "a \\`b\\` \\$(c)"',
    "awk '{print $(NF-1)}' f",
    "cat <<'E'\n$(x) `y`\nE\n",
    'f=a.log; echo ${f%.log} ${f##*/} "${f//a/b}"',
    "uname # `rm -rf /`",
)


@pytest.mark.parametrize("command", HIDDEN)
def test_a_command_that_the_parser_takes_for_text_makes_the_whole_unknown(command: str) -> None:
    assert "exec-dynamic" in effects(command)
    assert "exec-dynamic" in effects(f"redis-cli get x; {command}")


@pytest.mark.parametrize("command", PATTERNS)
def test_a_command_in_the_pattern_of_a_case_is_judged(command: str) -> None:
    assert "/srv/harm" in read(command).changes


@pytest.mark.parametrize("command", QUOTED)
def test_quoted_text_that_looks_like_a_command_is_text(command: str) -> None:
    assert effects(command) <= {"read"}
