"""Words as bash reads them: a real bash and our reader must come to the same result."""

import shutil
import subprocess
from pathlib import Path

import pytest
from reading import cases, effects, read

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


PLACES = r"""
echo ${z:-%}
echo "${z:-%}"
echo ${z:=%}
echo ${z:?%}
x=a; echo ${x:+%}
x=a; echo "${x:+'%'}"
x=a; echo ${x#%}
x=a; echo "${x##'%'}"
x=a; echo ${x%%}
x=a; echo ${x/%/b}
x=a; echo ${x/a/%}
x=a; echo "${x//a/'%'}"
x=a; echo ${x^^%}
x=abc; echo ${x:%}
x=abc; echo ${x:0:%}
x=(a b); echo ${x[%]}
x=(a b); echo ${x[@]/a/%}
set -- a b; echo ${@:%}
case x in %) ;; esac
case x in a|"%") ;; esac
case % in x) ;; esac
[[ x == % ]]
[[ x =~ (a|%) ]]
[[ -v a[%] ]]
[[ 'a[%]' -eq 1 ]]
[ -v 'a[%]' ]
\test -v 'a[%]'
cat <<< "%"
cat <<E⏎${z:-%}⏎E
cat <<E⏎'%'⏎E
cat <<'E'⏎%⏎E
true & wait -np 'a[%]'
printf -v 'a[%]' x
read 'a[%]' <<< x
mapfile -C 'echo %' -c 1 a < /etc/hostname
mapfile -t 'a[%]' < /etc/hostname
trap 'echo %' EXIT
a=(1); \unset 'a[%]'
\declare 'a[%]=1'
declare -i x='a[%]'
\declare -i x='a[%]'
declare -a x='([%]=1)'
declare -n r='a[%]'; echo $r
declare -i REPLY; read <<< 'a[%]'
declare -i MAPFILE; mapfile <<< 'a[%]'
declare -i OPTARG; getopts 'a:' n -a 'a[%]'
(( a[%] ))
let 'x=a[%]'
echo $(( 'a[%]' ))
echo $[ a[%] ]
x='a[%]'; echo $((x))
x='a[%]'; echo ${!x}
x='a[%]'; echo ${z:x}
x='%'; echo ${x@P}
a[%]=1
a=([%]=1)
for ((i=a[%];i<1;i++)); do :; done
for i in a%; do :; done
select i in %; do break; done < /dev/null
PS4='%'; set -x; true
PS4='%' bash -xc true
coproc echo %
shopt -s extglob⏎case x in !(%)) ;; esac
shopt -s extglob⏎x=a; echo ${x#@(%)}
cat {a[%]}< /etc/hostname
f() { :; } > /dev/null <<< %; f
exit 'a[%]'
shift 'a[%]'
printf '%d' 'a[%]'
"""
FORMS = ("$(: > MARK)", "`: > MARK`", "$\\\n(: > MARK)", "${q:-$(: > MARK)}", "$[$(: > MARK)]")


@pytest.mark.parametrize("place", cases(PLACES))
def test_bash_runs_no_command_in_a_text_that_is_judged_plain(place: str, tmp_path: Path) -> None:
    for form in FORMS:
        command = place.replace("%", form)
        if not effects(command) <= {"read"}:
            continue
        arguments = ["timeout", "5", "bash", "-c", f"{command}\nwait"]
        subprocess.run(arguments, cwd=tmp_path, capture_output=True, stdin=subprocess.DEVNULL)
        assert not (tmp_path / "MARK").exists(), command
