"""Words as bash reads them: a real bash and our reader must come to the same result."""

import shutil
import subprocess

import pytest
from reading import cases, read

WORDS = cases(r"""
a
'a b'
"a b"
a\ b
a''b
"a"'b'c
$'a\tb'
$'\x41\102\u0043'
"a\"b"
"a\nb"
'a'\''b'
{a,b}
x{a,b{c,d}}y
{1..4}
{a..e..2}
{01..03}
a{b}c
{a,b
"{a,b}"
{a,'b c'}
$X
"$X"
$Y
"$Y"
a${Y}b
"a${Y}b"
${N:-d}
${N-d}
${X:+e}
${E:+e}
${E:-f}
${E-f}
${#X}x
${X%c}
${X%%b*}
${X#a}
${X##*b}
${X/b/Z}
${X//b/}
${X:1}
${X:1:1}
${X: -2}
${X^^}
${X^}
$(echo a b)
"$(echo a b)"
`echo c`
$(printf '%s-' a b)
$(echo -n 'x  y')
"$(echo "x  y")"
$(echo $Y)
${A[@]}
"${A[@]}"
${A[0]}
"${A[*]}"
${A[1]}
$E
"$E"
a$E
~
~/x
"~"
a~
$HOME/x
'$X'
\$X
"\$X"
a=b
a=$X
--x=$X
#a
a#b
[
]
a]b
!
%
^
@
:
a:b
-
--
+x
é
'ü'
$'\303\274'
$1
"$@"
$*
"$*"
${1}x
${2:-q}
$'it\'s'
$((1+2))
'a⏎b'
""
''
""")
SETUP = "X=abc; Y='p  q'; E=; A=(one 'two three'); set -- first 'second third'; probe "


@pytest.fixture(scope="module")
def truth() -> dict[str, list[str]]:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    script = "set -f; probe() { printf '%s\\0' \"$@\" end; }; "
    found = {}
    for word in WORDS:
        done = subprocess.run(
            [bash, "-c", script + SETUP + word],
            env={"HOME": "/home/u", "LC_ALL": "C.UTF-8", "PATH": "/nowhere"},
            capture_output=True,
            check=True,
        )
        found[word] = done.stdout.decode().split("\0")[:-2]
    return found


@pytest.mark.parametrize("word", WORDS)
def test_a_word_expands_as_in_bash(word: str, truth: dict[str, list[str]]) -> None:
    ours = next(one for one in read(SETUP + word).commands if one.program == "probe").argv[1:]
    if any("…" in part for part in ours):
        assert len([part for part in ours if "…" not in part]) <= len(truth[word])
    else:
        assert list(ours) == truth[word]
