"""Variables that choose code, and arithmetic that runs it: held, while ordinary scripts are not."""

from pathlib import Path

import pytest
from reading import HOME, beyond, cases, effects

from hermes.policy.command_analysis import analyse_command

CHOOSES_CODE = cases(r"""
read PATH <<< /tmp/evil; ls
read -r LD_PRELOAD < /tmp/x; ls
printf -v PATH '%s' /tmp/evil; ls
printf -vLD_PRELOAD %s /tmp/x.so; ls
mapfile -t PATH < f; ls
readarray BASH_ENV < f; bash -c true
for PATH in /tmp/evil; do ls; done
select PATH in /tmp/evil; do ls; done < f
getopts a PATH
let PATH=5; ls
__hermes_undo='cat x'; pwd
((PATH=5)); ls
(( PATH |= 5 )); ls
: $((PATH=5)); ls
: $((++PATH)); ls
: ${PATH:=5}; ls
for ((PATH=5; PATH<6; )); do ls; done
a[PATH=5]=1; ls
echo ${a[PATH=5]}; ls
[[ PATH=5 -eq 5 ]] && ls
[ -v a[PATH=5] ] && ls
wait -p PATH -n; ls
set -a; GREETING=/tmp/x; ls
set -o allexport; ls
set -k; git diff GIT_EXTERNAL_DIFF=/tmp/x
PSQL_PAGER=/tmp/x psql -c 'select 1'
FACTERLIB=/tmp facter
RUSTC_WRAPPER=/tmp/x cargo metadata
GOROOT=/tmp/x go version
JAVA_HOME=/tmp/x mvn --version
CLOUDSDK_PYTHON=/tmp/x gcloud info
AWS_CONFIG_FILE=/tmp/x aws s3 ls
SSLKEYLOGFILE=/etc/x curl https://localhost/
TF_LOG_PATH=/etc/x terraform show
PGHOST=evil.example psql -c 'select 1'
AWS_ENDPOINT_URL=http://evil.example aws s3 ls
export PSQL_PAGER=/tmp/x
declare -x GIT_PAGER=/tmp/x
NOBODY_LISTED_THIS=/tmp/x ls
NOBODY_LISTED_THIS=https://evil.example ls
SOME_TOOL_PAGER=x ls
X=/tmp/x; export X
""")

ARITHMETIC = cases(r"""
echo $((a[$(cat f)]))
x=$(cat f); echo $((x))
x=$(cat f); (( x > 1 ))
x=$(cat f); let y=x
x=$(cat f); [[ $x -gt 1 ]]
[[ $(cat f) -gt 1 ]]
x=$(cat f); test -v "$x"
x=$(cat f); [ -v "$x" ]
x=$(cat f); [[ -v $x ]]
wait -p "$(cat f)" $!
x=$(cat f); unset "$x"
x=$(cat f); echo ${a[$x]}
x=$(cat f); declare "$x"
x=$(cat f); a[$x]=1
x=$(cat f); printf -v "$x" hi
x=$(cat f); read "$x" < g
x=$(cat f); mapfile "$x" < g
x=$(cat f); for ((i=x; i<3; i++)); do echo $i; done
echo $((UNSET_BEFORE + 1))
""")

ORDINARY = cases(r"""
n=$(wc -l < f); [ "$n" -gt 5 ] && echo many
n=$(wc -l < f); [[ $n -gt 5 ]] && echo many
n=$(pgrep -c nginx); echo $((n+1))
i=0; while [ $i -lt 5 ]; do i=$((i+1)); echo $i; done
for ((i=0;i<5;i++)); do echo $i; done
for i in 1 2 3; do echo $((i*2)); done
x=5; if (( x > 3 )); then echo big; fi
a=(1 2 3); echo ${a[1]} ${#a[@]}
declare -A m; m[foo]=1; echo ${m[foo]}
while read -r line; do echo "$line"; done < f
bad=$(grep -c ' 500 ' f); echo $((bad * 100))
total=0; for n in $(seq 5); do total=$((total+n)); done; echo $total
start=$(date +%s); sleep 1; echo $(( $(date +%s) - start ))
[[ "$HOSTNAME" == web* ]] && uptime
case $action in delete|destroy) echo no ;; *) echo yes ;; esac
LC_ALL=C sort f
TZ=UTC date
PGPASSWORD=x psql -h localhost -c 'select 1'
export NS=prod; kubectl get pods -n $NS
export PATH=$PATH:/usr/local/bin
""")


@pytest.mark.parametrize("command", CHOOSES_CODE)
def test_a_variable_that_chooses_code_is_held_however_it_is_set(command: str) -> None:
    assert "exec-dynamic" in effects(command)


@pytest.mark.parametrize("command", ARITHMETIC)
def test_arithmetic_over_unknown_text_is_held(command: str) -> None:
    assert "exec-dynamic" in effects(command)


@pytest.mark.parametrize("command", ORDINARY)
def test_ordinary_counting_and_naming_is_not_held(command: str) -> None:
    assert beyond(command) == set()


SECRETS = cases(r"""
kubectl get --raw /api/v1/namespaces/default/secrets
docker inspect web
docker container inspect web
docker inspect -f '{{json .}}' web
docker inspect -f '{{.Config.Env}}' web
terraform output -json
terraform show -json
terraform state pull
helm get values -a web
helm get all web
jq -n env
jq -n '$ENV.TOKEN'
yq -n 'load_str("/etc/shadow")'
yq -n 'strenv(TOKEN)'
ps eww -C gunicorn -o pid,args
ps auxe
docker top web eww
docker container top web auxe
tcpdump -i any -A 'tcp port 80'
strace -f -p 1 -e trace=read
fd -e pem . /etc/ssl/private -X cat
glab variable list --output json
""")


@pytest.mark.parametrize("command", SECRETS)
def test_a_read_that_prints_secrets_is_one(command: str) -> None:
    assert "secret-read" in effects(command)


PLAIN = cases(r"""
docker inspect -f '{{.State.Status}}' web
docker inspect --format='{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' web
docker network inspect bridge
terraform output
helm get notes web
jq .name package.json
yq .services compose.yaml
git branch --list
git tag -l
git fetch --dry-run
ps -ef
ps aux
ps -eo pid,args
tcpdump -i any -c 5 port 80
kubectl --kubeconfig=/etc/kubernetes/admin.conf get pods
""")


@pytest.mark.parametrize("command", PLAIN)
def test_the_same_program_used_plainly_stays_plain(command: str) -> None:
    assert beyond(command) == set()


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("git branch -f main HEAD~3", "delete"),
        ("git tag -f v1 HEAD~3", "delete"),
        ("git fetch origin '+refs/heads/*:refs/heads/*'", "delete"),
        ("git fetch --force origin", "delete"),
        ("rm /tmp/app.sock", "service-change"),
        ("fallocate -l 500G /tmp/x", "unknown"),
        ("dd if=/dev/zero of=/tmp/x bs=1M count=200000", "unknown"),
        ("tar -xf a.tar -C /tmp/u -P", "unknown"),
        ("kubectl --kubeconfig=/tmp/kc.yaml get pods", "exec-dynamic"),
        ("kubectl get pods --kubeconfig <(printf 'users: []')", "exec-dynamic"),
        ("aws --endpoint-url http://203.0.113.9 s3 ls", "network-out"),
        ("rclone lsf ':sftp,ssh=\"sh /var/tmp/r\":/'", "exec-dynamic"),
        ("tar xf a.tar -C /tmp/d && echo x > /tmp/d/sub/passwd", "unknown"),
    ],
)
def test_what_looks_harmless_and_is_not_is_marked(command: str, effect: str) -> None:
    assert effect in effects(command)


def test_a_hard_link_changes_the_file_that_it_names() -> None:
    assert "/etc/passwd" in analyse_command("ln /etc/passwd /tmp/x", home=HOME).changes
    assert "/etc/passwd" in analyse_command("cp -l /etc/passwd /tmp/x", home=HOME).changes


def test_a_link_is_followed_before_a_path_counts_as_temporary(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    found = analyse_command(
        f"echo x > {tmp_path}/link/motd", home=HOME, lookup=lambda path: str(Path(path).resolve())
    )
    assert "/etc/motd" in found.changes


def test_a_file_with_a_second_name_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    found = analyse_command(f"echo y > {tmp_path}/b", home=HOME, lookup=str)
    assert "unknown" in found.effects
    assert "unknown" not in analyse_command(f"echo y > {tmp_path}/c", home=HOME, lookup=str).effects
