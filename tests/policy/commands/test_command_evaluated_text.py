"""Expansions and assignments with which bash evaluates a value as code or as a name."""

import pytest
from reading import beyond, cases

EVALUATES_UNKNOWN_TEXT = r"""
x=$(cat pr.txt); echo ${x@P}
redis-cli -p 6399 get nothing; x=$(cat pr.txt); echo ${x@P}
docker ps; x=$(cat pr3.txt); echo ${x@P}
x=$(cat pr2.txt); echo ${!x}
x=$(cat p); echo "${x[@]@P}"
set -- "$(cat p)"; echo "${@@P}"
set -- "$(cat p)"; echo "${1@P}"
x='\044(id)'; echo ${x@P}
echo ${PS9@P}
x=$(cat p); echo ${y:-${x@P}}
x=$(cat p); echo ${y#${x@P}}
x=$(cat p); echo "${y/${x@P}/b}"
x=$(cat p); echo "${y:="${x@P}"}"
x=$(cat p); [[ -n ${x@P} ]]
x=$(cat p); [[ a =~ ${x@P} ]]
x=$(cat p); case a in ${x@P}) ls;; esac
x=$(cat p); for i in ${x@P}; do ls; done
x=$(cat p); cat <<<"${x@P}"
cat <<A⏎${x@P}⏎A
x=$(cat p); declare -A a; a[${x@P}]=1
x=$(cat p); y=(${x@P})
x=$(cat p); echo ${!x:-b} ${!x@Q}
x='a[i]'; i=$(cat p); echo ${!x}
for f in *; do echo ${!f}; done
x=$(cat p); y=abc; echo "${y:x}"
x=$(cat p); y=abc; echo "${y:0:x}"
x=$(cat p); echo "${@:x}"
y=abc; echo "${y:$(cat p)}"
echo ${a[$(cat p)]}
a[$(cat p)]=1
x=$(cat p); a=([x]=1)
x=$(cat p); [[ -n ${a[$x]} ]]
[[ -n $((x)) ]]
declare -A a; unset a; x=$(cat p); echo ${a[$x]}
f() { local -A a; a[x]=1; }; f; x=$(cat p); echo ${a[$x]}
set -- "$(cat p)"; echo $(( $1 ))
set -- $(cat p); echo $(( $2 ))
set -- a $(cat p); shift; echo $(( $1 ))
set -e "$(cat p)"; echo $(( $1 ))
set -- "$(cat p)"; [[ $1 -gt 1 ]]
if ls; then :; else set -- "$(cat p)"; fi; echo $(( $1 ))
f() { echo $(( $1 + 1 )); }; f "$(cat p)"
x=$(cat p); declare -i y=$x
x=$(cat p); declare -i y; y=$x
declare -i z; read z < p
x=$(cat p); declare -i z; for z in "$x"; do :; done
x=$(cat p); declare -i z; : ${z:=$x}
f() { local -i z="$(cat p)"; }; f
x=$(cat p); RANDOM=$x
x=$(cat p); OPTIND=$x
x=$(cat p); declare -a y="$x"
x=$(cat p); declare -A y="$x"
x=$(cat p); readonly -a y="$x"
x=$(cat p); y=(1); declare y="$x"
echo ${ ./x; }
echo "${| ./x; }"
"""

EVALUATES_KNOWN_TEXT = r"""
x=HOME; echo ${!x}
for v in HOME PATH; do echo "$v=${!v}"; done
echo ${!BASH*} ${!#}
x='\u@\h'; echo ${x@P}
x=$(cat p); echo "${x@Q}" "${x@A}" "${x@U}"
x=$(cat f); echo "${x:0:200}" "${x%%,*}" "${x##*/}" "${x//a/b}" "${x:-none}" "${x^^}"
s=abcdef; echo ${s:0:3} ${s: -2} ${s:1}
n=$(wc -l < f); echo $((n+1)) ${s:n}
declare -A m=([a]=1 [b]=2); for k in "${!m[@]}"; do echo "$k ${m[$k]}"; done
a=(1 2); for i in "${!a[@]}"; do echo ${a[$i]}; done
mapfile -t lines < f; echo "${lines[@]:0:5}" ${lines[3]}
a=(*.log); echo "${a[0]}" "${a[-1]}" "${#a[@]}" "${a[@]:1}"
declare -a l=("$(date)" b); echo "${l[@]}"
declare -i n=5; n+=3; echo $n
OPTIND=1; while getopts ab o; do echo $o; done
set -euo pipefail; echo $(( 3 + 4 ))
f() { echo $(( $1 + 1 )); }; f 3
f() { [[ $# -gt 0 && $1 -gt 3 ]] && echo x; }; f 4
"""


@pytest.mark.parametrize("command", cases(EVALUATES_UNKNOWN_TEXT))
def test_a_value_only_known_at_run_time_is_not_evaluated_unasked(command: str) -> None:
    assert "exec-dynamic" in beyond(command)


@pytest.mark.parametrize("command", cases(EVALUATES_KNOWN_TEXT))
def test_expansions_of_known_values_are_free(command: str) -> None:
    assert beyond(command) == set()
