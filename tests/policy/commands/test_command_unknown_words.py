"""Text of run time stands for any number of words, each of which may be an option or a program."""

import pytest
from reading import beyond, cases, effects

HARMFUL = r"""
sort a$x
sort ./a$x
sort -k $x f
sort -k$x f
sort *
sort [a-z]*.txt
ls | xargs sort
ls | xargs -I{} sort {}
find . -name '*.log' | xargs sort
for f in $(ls); do sort $f; done
read x < list; sort a$x
find .$x
find /tmp/$x -name y
find . -name a$x
find . -mtime +$n
find * -name y
git log a$x
git -C /srv/$x log
git log --since=$x
git diff HEAD~$n
tar tf a$x
tar tf /backup/$x.tgz
rg a$x
awk -F$x '{print}' f
man a$x
openssl x509 -in a$f
timeout $x ls
timeout 5$x ls
timeout $x docker ps
nice -n $x ls
env A=$x ls
env A=a$x ls
sudo -u $x ls
xargs -n $x echo
ls | xargs -I$x echo
watch -n $x date
stdbuf -o$x ls
kubectl get pods $x
kubectl get pods -n a$x
kubectl get $x
kubectl describe pod/$x
docker logs a$x
docker ps $x
journalctl -u $x
journalctl -u a$x
journalctl "$x"
helm list $x
helm status a$x
sysctl $x
sysctl kernel.$x
date -d $x
date +$x
ifconfig $x
ethtool $x
uniq $f
uniq *
xxd $f
tree a$x
lsof -p $x
"""
PLAIN = r"""
sort ./*
sort -t"$x" f
sort "/srv/$x"
cat *
cat $f
wc -l a$x
grep needle $f
head -n 20 /var/log/$f
echo a$x > /dev/null
find . -print0 | xargs -0 sort
find /var/log/"$x" -name y
ls -t | head -1 | xargs tail
git diff HEAD~"$n"
timeout "$t" ls
journalctl -u "$x" -n 50
kubectl get pods "$x"
kubectl get pods -o name | while read p; do kubectl logs --tail=5 $p; done
kubectl get nodes -o name | xargs -n1 kubectl describe
kubectl describe node $(kubectl get pod web-0 -o jsonpath='{.spec.nodeName}')
docker ps -q | xargs docker inspect --format '{{.Name}}'
docker inspect -f '{{.State.OOMKilled}}' $(docker ps -aq)
systemctl status $x
systemctl status a$x
for h in a b; do timeout 5 ping -c1 web-$h; done
for n in $(seq 3); do git log -n$n; done
"""


@pytest.mark.parametrize("command", cases(HARMFUL))
def test_a_word_of_run_time_may_be_an_option_or_a_program(command: str) -> None:
    assert "exec-dynamic" in effects(command)


@pytest.mark.parametrize("command", cases(PLAIN))
def test_words_that_cannot_do_harm_stay_plain(command: str) -> None:
    assert not beyond(command)


@pytest.mark.parametrize(
    "command",
    [
        "kubectl get pods -o yaml",
        "docker ps -q --format '{{.Names}}'",
        "docker images --format x -q",
    ],
)
def test_output_that_others_choose_is_text_of_run_time(command: str) -> None:
    assert "exec-dynamic" in effects(f"docker logs $({command})")


def test_a_single_word_of_run_time_may_ask_for_any_object() -> None:
    assert "secret-read" in effects('kubectl get "$x"')
    assert "secret-read" in effects('kubectl get -n a "$x"')
