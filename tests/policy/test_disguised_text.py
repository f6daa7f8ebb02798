"""Programs that print a file in another form ask when the file holds secrets, and only then."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.policy.actions.action_effects import ActionEffects
from hermes.policy.actions.reader import ActionContext, ActionReader, resolve_symlinks
from hermes.policy.command_analysis import analyse_command
from hermes.policy.examination import action_from_description, parse_description
from hermes.policy.redaction.redactor import Redactor

SECRET = "database:\n  host: db-1\n  password: Xk9!vQ2pLm7z\n"
PLAIN = "server:\n  host: web-1\n  port: 8080\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.yml").write_text(SECRET)
    (tmp_path / "web.yml").write_text(PLAIN)
    for name, text in (("app", SECRET), ("web", PLAIN)):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        with tarfile.open(tmp_path / f"{name}.tgz", "w:gz") as archive:
            member = tarfile.TarInfo("app/config.yml")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return tmp_path


def read(command: str, folder: Path, environment: str = "local") -> ActionEffects:
    action = replace(
        action_from_description(parse_description({"command": command})), environment=environment
    )
    reader = ActionReader(analyse_command, lookup=resolve_symlinks, clean=Redactor().clean)
    return reader.read(action, ActionContext(cwd=str(folder), home="/home/nobody"))


DISGUISES = """
cat FILE.yml | rev
rev FILE.yml
rev < FILE.yml
base64 FILE.yml
cat FILE.yml | base32 -w0
xxd FILE.yml
xxd -p FILE.yml | tr -d '\\n'
od -An -c FILE.yml
hexdump -C FILE.yml | head
cat FILE.yml | tr a-z n-za-m
tr 'a-zA-Z' 'b-zaB-ZA' < FILE.yml
fold -w1 FILE.yml
cut -c1-5 FILE.yml
cut -b 3 FILE.yml
grep -o . FILE.yml
sed 's/./& /g' FILE.yml
sed 'y/abcdef/bcdefa/' FILE.yml
awk '{for(i=1;i<=length($0);i++) print substr($0,i,1)}' FILE.yml
awk '{n=split($0, a, ""); for(i=n;i>0;i--) print a[i]}' FILE.yml
openssl base64 -in FILE.yml
iconv -t UTF-16 FILE.yml
zcat FILE.tgz | rev
zcat FILE.gz | base64
gzip -dc FILE.gz | xxd
cat FILE*.yml | rev
factor FILE.yml
hexyl FILE.yml
colrm 4 < FILE.yml
cat FILE.yml | figlet
dd if=FILE.yml conv=swab
sed 's/[a-z0-9]/&-/g' FILE.yml
sed 's/p/9/g' FILE.yml
awk '{print substr($2, 1, 4), substr($2, 5, n)}' FILE.yml
awk '{printf "%c%s", 35, $2}' FILE.yml
awk '{gsub(/./, "& "); print}' FILE.yml
awk 'function f(s) {return f(s)} {print f($0)}' FILE.yml
cat FILE.yml | jq -R 'explode'
cat FILE.yml | jq -R '@base64'
cat FILE.yml | jq -R '.[0:4], .[4:8]'
cat FILE.yml | jq -R 'ltrimstr("a") | @uri'
""".strip().splitlines()


@pytest.mark.parametrize("command", DISGUISES)
def test_the_source_decides_whether_another_form_may_be_printed(command: str, folder: Path) -> None:
    assert "secret-read" in read(command.replace("FILE", "app"), folder).effects
    assert "secret-read" not in read(command.replace("FILE", "web"), folder).effects


@pytest.mark.parametrize(
    "command",
    [
        "cat app.yml",
        "cat app.yml | sort | head -3",
        "grep host app.yml | cut -d: -f2",
        "awk '{print $1}' app.yml",
        "awk '{print substr($0, 1, 80)}' app.yml",
        "sed -n 's/^host: *//p' app.yml",
        "sed 's/[\" ]//g' web.yml",
        "sed 's/[0-9]\\+/N/g' app.yml",
        'jq -r \'.items[] | select(.name | test("a.b")) | "\\(.name) \\(.port)"\' app.yml',
        "paste -sd, app.yml | column -t -s,",
        "tr 'a-z' 'A-Z' < app.yml",
        "tr -d '\\r' < app.yml",
        "sha256sum app.yml | cut -c1-12",
        "ls app.yml | rev | cut -d. -f1 | rev",
        "rev app.yml | rev",
        "cut -c1-80 app.yml",
        "base64 -d web.yml",
        "head -c 16 /dev/urandom | xxd -p",
        "git rev-parse HEAD | cut -c1-8",
        "echo aGk= | base64 -d",
        "xxd /bin/true | head -2",
        "xxd no-such-file",
    ],
)
def test_what_keeps_the_form_or_holds_no_secret_is_plain(command: str, folder: Path) -> None:
    assert "secret-read" not in read(command, folder).effects


@pytest.mark.parametrize(
    "command",
    [
        "cut -d: -f2 FILE.yml",
        "grep word FILE.yml | cut -d: -f2-",
        "grep '^[[:space:]]*pass' FILE.yml | cut -d: -f2",
        "cat FILE.yml | cut -c 15-",
        "awk -F: '{print $2}' FILE.yml",
        "awk -F: '$2 > 3 {n++; print substr($0, 30)} END {print n}' FILE.yml",
        "sed -n 's/.*word: //p' FILE.yml",
        "grep -oE '[^ ]+$' FILE.yml",
        "tr ':' '\\n' < FILE.yml",
        "tail -c 14 FILE.yml",
        "yq .database.password FILE.yml",
        "column -s: -t FILE.yml",
        "dd if=FILE.yml skip=30 bs=1",
        "mapfile -t a < FILE.yml; echo ${a[2]#*: }",
        "set -- $(grep word FILE.yml); echo $2",
        "printf '%s' \"$(cut -d: -f2 FILE.yml)\"",
        "cut -d: -f2 [a-w]*.yml -- FILE.yml",
    ],
)
def test_a_value_without_its_name_asks_only_where_the_name_is_what_shows_it(
    command: str, folder: Path
) -> None:
    (folder / "own.yml").write_text("  token: ghp_" + "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA1bC2\n")
    assert "secret-read" in read(command.replace("FILE", "app"), folder).effects
    if "*" not in command:
        assert "secret-read" not in read(command.replace("FILE", "web"), folder).effects
        assert "secret-read" not in read(command.replace("FILE", "own"), folder).effects


PARTS = r"""
cmp -l FILE.yml /dev/null
cmp -bl FILE.yml other
join -o 1.2 -t: FILE.yml other
tac -s : FILE.yml
sed -n 'l 5' FILE.yml
sed -n '3s/.*: //p' FILE.yml
sed 's/^[^ ]* *[^ ]* //' FILE.yml
sed 's/ /\n/g' FILE.yml
sed 'sx.*:xx' FILE.yml
sed -n -e 's/zzz//p' -e 's/.*: //p' FILE.yml
sed -n 's/zzz//p;s/.*: //p' FILE.yml
xargs -d : -a FILE.yml
xargs -n1 < FILE.yml
cat FILE.yml | xargs -d: ls
numfmt -d : --field 2 --invalid=ignore < FILE.yml
fmt -w 5 FILE.yml
fold -w 14 FILE.yml
wdiff -3 FILE.yml other
xmllint --xpath '//x' FILE.yml
rg -r '$1' '.*: (.*)' FILE.yml
rg -or '$1' '.*: (.*)' FILE.yml
ack --output='$1' ': (.*)' FILE.yml
grep -m 9 -oP 'password: \K.*' FILE.yml
grep -e zz -oe '[^ ]*$' FILE.yml
grep -zo '[^ ]*$' FILE.yml
grep 'zz\|word' FILE.yml | cut -d: -f2
cut -sf3 -d' ' FILE.yml
cut -d: -f1 --complement FILE.yml
cut -d: --f=2 FILE.yml
awk -F: '{print $ 2}' FILE.yml
awk -F: '{$1 = ""; print}' FILE.yml
awk -F /zz/ '{print $2}' FILE.yml
awk '/zz/{getline; getline; print $2}' FILE.yml
tail -14c FILE.yml
head --by=50 FILE.yml
column -t -o : FILE.yml
git grep --no-index -oh '[^ ]*$' FILE.yml
git diff --no-index --word-diff-regex=. FILE.yml other
git diff --no-index --word-diff=porcelain FILE.yml other
curl -s -r 30- file://FOLDER/FILE.yml
curl -C 30 file://FOLDER/FILE.yml
expr "$(cat FILE.yml)" : '.*word: \(.*\)'
expr substr "$(<FILE.yml)" 30 20
while IFS=: read -r k v; do echo "$v"; done < FILE.yml
{ read -rn12 x; read -r y; echo "$y"; } < FILE.yml
bash -c 'while read a b; do echo $b; done' < FILE.yml
read -rn1 x < FILE.yml; echo $x
for w in $(<FILE.yml); do echo ${w#*:}; done
x=`cat FILE.yml`; echo ${x##*:}
printf "$(<FILE.yml)" | tail -c 12
cat FILE.yml | tail -c 12
ls $(tail -n1 FILE.yml)
systemctl status $(cat FILE.yml)
[ 1 -eq "$(tail -n1 FILE.yml)" ]
find . -name FILE.yml -exec cut -d: -f2 {} +
find . -type f -name 'FILE.y*' -exec tail -c 14 {} \;
find FOLDER/.. -name FILE.yml -exec cut -d: -f2 {} +
cut -d: -f2 /proc/self/cwd/FILE.yml
""".strip().splitlines()


@pytest.mark.parametrize("command", PARTS)
def test_programs_that_are_not_known_to_print_whole_lines_are_looked_into(
    command: str, folder: Path
) -> None:
    (folder / "other").write_text("x\n")
    command = command.replace("FOLDER", str(folder))
    assert "secret-read" in read(command.replace("FILE", "app"), folder).effects
    assert "secret-read" not in read(command.replace("FILE", "web"), folder).effects


@pytest.mark.parametrize(
    "command",
    [
        "sort app.yml | uniq -c",
        "grep -n host app.yml",
        "awk '{print $1}' app.yml | sort",
        "cut -d: -f1 app.yml",
        "sed 's/^[[:space:]]*//; s/ *$//' app.yml",
        "sed -n '/host/p' app.yml | cut -d: -f2",
        "nl -ba app.yml",
        "diff <(sort app.yml) <(sort web.yml)",
        "comm -12 app.yml web.yml",
        "cmp app.yml web.yml",
        "column -t app.yml",
        'n=$(grep -c host app.yml); echo "$n"',
        '[ -n "$(grep host app.yml)" ]',
        '[ "$(grep -c host app.yml)" -gt 0 ]',
        "kill -0 $(cat web.yml); cat app.yml",
        'for f in *.yml; do wc -l "$f"; done',
        "find . -name '*.yml' | xargs grep -n host",
        "find . -name '*.yml' -exec grep -Hn host {} +",
        "kubectl --context $(yq .database.host app.yml) get pods",
        "while read -r line; do echo $line; done < web.yml",
        "git diff -- app.yml",
    ],
)
def test_whole_lines_and_names_are_printed_without_a_question(command: str, folder: Path) -> None:
    assert "secret-read" not in read(command, folder).effects


def test_more_small_files_than_are_looked_into_count_as_secrets(folder: Path) -> None:
    (folder / "many").mkdir()
    for number in range(60):
        (folder / "many" / f"{number}.ini").write_text("port = 1\n")
    assert "secret-read" in read("cut -d= -f2 many/*.ini", folder).effects
    assert "secret-read" not in read("cut -d= -f2 many/1*.ini", folder).effects


def test_a_pattern_that_never_ends_is_not_searched_for(folder: Path) -> None:
    (folder / "long.yml").write_text(f"password: Xk9!vQ2pLm7z\n{'a' * 60_000}!\n{'a' * 300}!\n")
    for pattern in ("(a+)+$", "a*a*a*a*a*a*a*a*b", "a*$"):
        command = f"grep '{pattern}' long.yml | cut -d: -f2"
        assert "secret-read" in read(command, folder).effects


@pytest.mark.parametrize(
    "command",
    [
        "git log -p | rev",
        "git show HEAD:app.py | base64",
        "kubectl get configmap x -o yaml | base64",
        'for f in *; do base64 "$f"; done',
        "tar cf - . | base64",
        "journalctl -u web | xxd",
        "journalctl -u web -n 50 | awk '{print substr($0, 1, 3)}'",
        'for f in *; do sed "s/./& /g" "$f"; done',
    ],
)
def test_what_cannot_be_looked_into_counts_as_a_secret(command: str, folder: Path) -> None:
    assert "secret-read" in read(command, folder).effects


@pytest.mark.parametrize(
    "command",
    [
        "journalctl -u web -n 50 --no-pager",
        "journalctl -u web | grep -c error",
        "journalctl -u web --since -1h | awk '{print $5}' | sort | uniq -c | sort -rn | head",
        "journalctl -u web | cut -c1-120",
        "kubectl get pod web -o json | jq -r '.status.phase, (.spec.containers | length)'",
        "docker logs web 2>&1 | sed -n 's/.*status=//p' | sort | uniq -c",
    ],
)
def test_lines_and_fields_of_a_log_are_printed_without_a_question(
    command: str, folder: Path
) -> None:
    assert "secret-read" not in read(command, folder).effects


def test_a_file_on_another_host_counts_as_a_secret(folder: Path) -> None:
    assert "secret-read" in read("rev web.yml", folder, environment="ssh").effects
    assert "secret-read" not in read("cat web.yml", folder, environment="ssh").effects


def test_a_file_that_is_too_large_to_look_into_counts_as_a_secret(folder: Path) -> None:
    (folder / "large.log").write_bytes(b"a line\n" * 1_300_000)
    assert "secret-read" in read("rev large.log", folder).effects
