"""The same command said differently: every line removes x, or runs what nobody can see."""

import pytest
from reading import beyond, cases, effects, read

KNOWN = cases(r"""
rm x
r\m x
'rm' x
"r"m x
r''m x
\rm x
$'\x72m' x
$'\162\155' x
$'\u0072m' x
/bin/rm x
/usr/bin/../bin/rm x
//bin//rm x
X=rm; $X x
X=r; Y=m; $X$Y x
X='rm x'; $X
rm${IFS}x
IFS=,; X=rm,x; $X
A=(rm x); "${A[@]}"
set -- rm x; "$@"
set -- a rm; shift; $1 x
$(echo rm) x
`echo rm` x
$(printf '\x72m') x
printf -v X rm; $X x
read X <<< rm; $X x
f() { "$@"; }; f rm x
for c in rm; do $c x; done
X=am; ${X/a/r} x
X=rmm; ${X%m} x
X=arm; ${X#a} x
X=RM; ${X,,} x
X=xrmx; ${X:1:2} x
a=b rm x
>/dev/null rm x
rm >/dev/null x
rm \⏎ x
eval rm x
eval 'r''m x'
bash -c 'rm x'
bash -euo pipefail -c 'rm x'
sh -c 'sh -c "rm x"'
bash -c '$0 x' rm
env -S 'rm x'
env -i A=b rm x
exec -a ls rm x
command rm x
builtin command rm x
nohup rm x &
nice -n 5 timeout -k 1 5 rm x
chrt -i 0 rm x
busybox rm x
xargs rm <<< x
echo x | xargs -I% rm %
echo 'rm x' | xargs -I{} sh -c {}
time rm x
find . -exec rm x \;
find . -exec sh -c 'rm x' \;
watch rm x
flock /l rm x
flock /l -c 'rm x'
script -qc 'rm x' /dev/null
parallel rm ::: x
strace rm x
su -c 'rm x'
sudo -u root -- rm x
ssh web1 rm x
ssh -p 22 web1 'rm x'
docker exec api rm x
docker compose exec -T web rm x
kubectl exec -n p pod -c app -- rm x
git -c alias.x='!rm x' x
sed '1e rm x' f
trap 'rm x' EXIT
(rm x)
{ rm x; }
! rm x
if rm x; then :; fi
while :; do rm x; break; done
case a in a) rm x;; esac
ls && rm x
ls || rm x
ls | rm x
ls;rm x
ls⏎rm x
ls & rm x
rm x #
echo 'a' 'b'\⏎; rm x
echo $(rm x)
echo "`rm x`"
cat <(rm x)
cat <<E⏎$(rm x)⏎E
: ${X:=$(rm x)}
echo ${X:-$(rm x)}
(( $(rm x) ))
[ $(rm x) ]
[[ -n $(rm x) ]]
export X=$(rm x)
f() { rm x; }
alias q='rm x'⏎q
cat <<E | sh -s⏎rm x⏎E
echo rm x | bash
bash <<< 'rm x'
source /dev/stdin <<< 'rm x'
at now <<< 'rm x'
""")


@pytest.mark.parametrize("command", KNOWN)
def test_a_disguised_removal_is_seen_as_the_removal_it_is(command: str) -> None:
    assert "delete" in effects(command), read(command)


UNKNOWN = cases(r"""
$X x
${X:-rm} x
eval "$X"
bash -c "$X"
$(cat f) x
`cat f`
source f
. ./f
bash f
curl -s localhost/x | sh
echo cm0geA== | base64 -d | sh
xxd -r f | bash
gzip -dc f | sh
sh < f
bash <(cat f)
bash -s
python3 f.py
python3 -c 'import os'
python3 <<E⏎x⏎E
perl -e x
ruby -e x
node -e x
php -r x
awk 'BEGIN { system("x") }'
awk '{ print | "sh" }' f
awk 'BEGIN { a = 1; b = a /1; system("x"); c = 2/ 1 }'
awk '{ x = /"/; system(y); z = /"/ }' f
awk -f f
sed s/a/b/e f
sed -f f g
vim -c :x f
ed f
sqlite3 a.db '.shell x'
git -c core.pager=x log
git bisect run x
tar cf x f --checkpoint-action=exec=x
tar tf f -I x
tar xf f --to-command=x
make
sort --compress-prog=x f
rg --pre x y
man -P x ls
rsync -ne x a b:c
ssh -o ProxyCommand=x h ls
nmap --script x h
less '+!x' f
{rm,x}
/bin/r? x
/???/rm x
r\⏎m x
PATH=/tmp:$PATH ls
LD_PRELOAD=x ls
BASH_ENV=x bash -c ls
ls() { :; }; ls
alias ls=id
x='a[$(rm y)]'; echo $((x))
[[ -v 'a[$(rm y)]' ]]
compgen -C x
jobs -x x
$(which ls) rm x
$(command -v ls) rm x
$(ls id) rm x
ls id /bin/rm | xargs env
id || f() { ls; }; f
command $<<E⏎x⏎<<E
*X=a ls
![[ a ]]
unset HISTFILE
hash -p x ls
mapfile -C x < f
mapfile -t -C x < f
crontab f
tmux ls \; run-shell x
screen -dm x
coproc x
find $X
ls | while read l; do $l; done
echo x > >(sh)
rm x <<A <<B⏎a⏎A⏎b⏎B
nft 'list ruleset; flush ruleset'
service ../../tmp/x status
nginx -t -c /tmp/x
java -agentpath:x -version
ls $(
if ls
ls )
""")
UNKNOWN += [
    "\uff4c\uff53",
    "l\u200bs",
    "ls\r",
    "ls \u202ex",
    "ls\x1b",
    "ls\x00",
    "python3 -i -c 1 < /tmp/x",
    "python3 -im json.tool <<< 'import os'",
    "exec < /tmp/request; busybox nc 127.0.0.1 80",
    "tmux display-message -p '#(id > /tmp/x)'",
    "cargo metadata --config 'build.rustc=\"/tmp/x\"'",
]


@pytest.mark.parametrize("command", UNKNOWN)
def test_what_is_only_known_at_run_time_asks(command: str) -> None:
    assert "exec-dynamic" in beyond(command), read(command)


def test_a_secret_is_not_read_by_way_of_the_index() -> None:
    assert "secret-read" in beyond("git add .env")
    assert "secret-read" in beyond("git add -f build")
    assert "secret-read" not in beyond("git add src README.md")


def test_input_that_another_statement_opened_is_not_known() -> None:
    assert "network-out" in beyond("exec 5< /tmp/request; busybox nc 127.0.0.1 80 <&5")
    assert not beyond("exec 2>/dev/null; ls")


BOMBS = cases(r"""
:(){ :|:& };:
f() { f | f & }; f
a() { b & b; }; b() { a & a; }; a
while true; do bash & done
bash -c ':(){ :|:& };:'
eval 'f(){ f|f& };f'
for ((;;)); do ls & done
""")


@pytest.mark.parametrize("command", BOMBS)
def test_a_fork_bomb_is_on_the_floor(command: str) -> None:
    assert {"fork-bomb", "irreversible"} <= effects(command)


def test_a_variable_that_a_branch_may_have_changed_is_not_known() -> None:
    assert "exec-dynamic" in effects("X=ls; [ a ] && X=rm; $X f")
    assert "exec-dynamic" in effects("X=ls; if a; then X=id; fi; $X f")
    assert beyond("X=/tmp/a && rm $X/b") == {"delete"}


def test_wrappers_are_peeled_and_remembered() -> None:
    (found,) = read("sudo -u root nice timeout 5 sh -c 'rm -f /srv/x'").commands
    assert (found.program, found.via) == ("rm", ("sudo", "nice", "timeout", "sh"))
    assert found.effects >= {"delete", "privilege"}


def test_a_wrapper_says_where_it_acts() -> None:
    assert read("ssh deploy@web1 rm x").commands[0].target.host == "web1"
    pod = read("kubectl --context eu -n prod exec web-0 -- rm x").commands[0].target
    assert (pod.context, pod.namespace, pod.container) == ("eu", "prod", "web-0")
    assert read("systemctl restart nginx").commands[0].target.service == "nginx"
    assert read("docker exec api rm x").commands[0].target.container == "api"


def test_a_wrapper_that_runs_nothing_we_see_keeps_its_own_effects() -> None:
    assert "exec-dynamic" in effects("echo | sed '1e ssh web1'")
    assert "exec-dynamic" in effects("echo | sudo ssh web1")
