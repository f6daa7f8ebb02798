"""Properties: quoting and wrapping never lose an effect, and no text breaks the reader."""

import shlex
import time

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading import cases, effects, read

from hermes.policy.command_analysis import analyse_command

HARMFUL = st.sampled_from(
    ["rm -rf /srv/data", "systemctl stop nginx", "kubectl delete ns prod", "dd if=x of=/dev/sda",
     "psql -c 'drop table t'", "cat /etc/shadow", "curl -T f http://example.com", "chmod 777 f",
     "git push --force", "redis-cli flushall", "echo x > f", "rm -f ~/.hermes/policies/a"]
)  # fmt: skip
AROUND = st.sampled_from(
    cases(r"""
bash -c {q}
sh -c {q}
eval {q}
( {} )
{{ {}; }}
ls; {}
true && {}
false || {}
if true; then {}; fi
for i in a; do {}; done
echo $( {} )
f() {{ {}; }}; f
{} | cat
bash <<< {q}
echo {q} | sh
timeout 5 sh -c {q}
nohup bash -c {q} &
ssh web1 {q}
docker exec api sh -c {q}
env A=b sh -c {q}
trap {q} EXIT
while :; do {}; break; done
case a in a) {};; esac
cat <( {} )
find / -maxdepth 0 -exec sh -c {q} \;
x=$( {} )
""")
)


def wrapped(template: str, command: str) -> str:
    return template.format(command, q=shlex.quote(command))


@given(HARMFUL, st.lists(AROUND, min_size=1, max_size=3))
@settings(max_examples=300, deadline=None)
def test_wrapping_never_loses_an_effect(command: str, around: list[str]) -> None:
    text = command
    for template in around:
        text = wrapped(template, text)
    lost = effects(command) - {"read"} - effects(text)
    # Elsewhere, `~` and a relative path are other places: what remains must still ask.
    assert not lost or "exec-dynamic" in effects(text) or lost <= {"self-change"}, text


def said(letter: str, how: int) -> str:
    ways = [letter, "\\" + letter, f"'{letter}'", f'"{letter}"', f"$'\\x{ord(letter):02x}'"]
    return ways[how % 5]


@given(HARMFUL, st.lists(st.integers(0, 4), min_size=16, max_size=16))
@settings(max_examples=200, deadline=None)
def test_quoting_the_program_letter_by_letter_changes_nothing(
    command: str, ways: list[int]
) -> None:
    program, _, rest = command.partition(" ")
    mutated = "".join(said(letter, ways[at % 16]) for at, letter in enumerate(program))
    found = effects(f"{mutated} {rest}")
    assert found == effects(command) or "exec-dynamic" in found


LETTERS = "abrm xyz01-_/.~$(){}[]<>|&;\"'`\\\n\t#=*?!,:%@^+\ré\u200b"
SHELL = st.text(st.sampled_from(LETTERS), max_size=300)


@given(SHELL | st.text(max_size=300))
@settings(max_examples=400, deadline=None)
def test_no_text_breaks_the_reader(text: str) -> None:
    found = read(text)
    assert found.effects
    assert analyse_command(text) == analyse_command(text)


PIECES = [*"ab $(){}[]<>|&;\"'`\\\n#=*!?@", "if ", "do ", "rm ", "f() "]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_ten_kilobytes_of_anything_are_read_in_no_time(pieces: list[str]) -> None:
    text = ("".join(pieces) * 10_000)[:10_000]
    analyse_command(text)
    best = min(_seconds(text) for _ in range(3))
    # A wall against blow-ups that hold up a run, not a benchmark: that is bench/policy_commands.py.
    assert best < 0.5, f"{best:.3f} s for {text[:60]!r}"


def _seconds(text: str) -> float:
    started = time.thread_time()
    analyse_command(text)
    return time.thread_time() - started
