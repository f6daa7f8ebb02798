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
    f"wait -np 'a[$({INSIDE})]'",
    f"echo ${{z:-$\\\n({INSIDE})}}",
    f"x=a; echo ${{x#${{ {INSIDE}; }}}}",
    "read y < f; x=abc; echo ${x#$[y]}",
)
PATTERNS = (
    f"case x in $({INSIDE})) ;; esac",
    f"case x in a|$({INSIDE})) ;; esac",
    f"case x in `{INSIDE}`) ;; esac",
    f"case x in <({INSIDE})) ;; esac",
)
DECLARED = (
    "read y < f; \\declare -i x=$y",
    "read y < f; \\declare -n x; x=$y",
    "read y < f; command typeset -i x; x=$y",
    'read y < f; \\unset "$y"',
    'read y < f; wait "$y" "$y"',
    "declare -i REPLY; read < f",
    "read x < f; read y <<< $'x\\nz'; echo $((y))",
    "read y <<< $'a[$(id)]\\nz'; echo $((y))",
    "declare -i MAPFILE; mapfile < f",
    'declare -i OPTARG; getopts a: n "$@"',
)
QUOTED = (
    "echo 'a `b` $(c)'",
    "grep 'rm `x`' f",
    'echo "a \\`b\\` \\$(c)"',
    "awk '{print $(NF-1)}' f",
    "cat <<'E'\n$(x) `y`\nE\n",
    'f=a.log; echo ${f%.log} ${f##*/} "${f//a/b}"',
    "uname # `rm -rf /`",
    "grep '$[0-9]' f",
    "declare -i n=3; n+=4; echo $n",
    "sleep 1 & p=$!; wait $p",
)


@pytest.mark.parametrize("command", HIDDEN)
def test_a_command_that_the_parser_takes_for_text_makes_the_whole_unknown(command: str) -> None:
    assert "exec-dynamic" in effects(command)
    assert "exec-dynamic" in effects(f"redis-cli get x; {command}")


@pytest.mark.parametrize("command", PATTERNS)
def test_a_command_in_the_pattern_of_a_case_is_judged(command: str) -> None:
    assert "/srv/harm" in read(command).changes


@pytest.mark.parametrize("command", DECLARED)
def test_text_of_run_time_that_a_builtin_evaluates_makes_the_whole_unknown(command: str) -> None:
    assert "exec-dynamic" in effects(command)


@pytest.mark.parametrize("command", QUOTED)
def test_quoted_text_that_looks_like_a_command_is_text(command: str) -> None:
    assert effects(command) <= {"read"}
