"""Our own files, reached by writing a whole tree above them."""

from pathlib import Path

import pytest
from reading import HOME, OWN, cases, read

from hermes.policy.actions.reader import resolve_symlinks
from hermes.policy.command_analysis import analyse_command

REPLACING = cases("""
tar -C ~ -xf a.tar
tar -C /home -xzf a.tgz
tar -C / -xf a.tar
cd ~ && tar xf a.tar
unzip -d ~ a.zip
unzip -o a.zip -d /home/u/.hermes
cp -r other/. ~
cp -rT other ~
cp -a other/.hermes ~
cp -r other/.hermes ~/
cp -rt ~ other/.hermes
rsync -a other/ ~/
mv -T other ~
mv other/.hermes ~
git --git-dir=/tmp/x/.git --work-tree=/home/u checkout -f
git -C ~ switch other
bsdtar -x -C ~ -f a.tar
""")
HARMLESS = cases("""
tar -C /home/u/project -xf a.tar
tar xf a.tar
unzip a.zip
cp notes.txt ~
cp notes.txt ~/
cp -r docs ~/
cp -t ~ a b
mv notes.txt ~
rsync -a docs/ ~/docs/
git -C ~/project switch main
git switch main
mkdir -p ~/x
chmod 700 ~
""")


@pytest.mark.parametrize("command", REPLACING)
def test_a_tree_written_above_our_files_is_denied(command: str) -> None:
    assert "self-change" in read(command).effects, read(command)


@pytest.mark.parametrize("command", HARMLESS)
def test_what_goes_beside_our_files_is_not(command: str) -> None:
    assert "self-change" not in read(command).effects, read(command)


def test_archives_in_the_project_are_denied_only_beside_policies(tmp_path: Path) -> None:
    policies = tmp_path / ".hermes" / "policies"

    def effects(command: str) -> frozenset[str]:
        return analyse_command(
            command,
            cwd=str(tmp_path),
            home=HOME,
            lookup=resolve_symlinks,
            own_paths=(*OWN, str(policies)),
        ).effects

    assert "self-change" not in effects("tar xf a.tar")
    policies.mkdir(parents=True)
    assert "self-change" in effects("tar xf a.tar")
    assert "self-change" not in effects("tar -C sub -xf a.tar")
    assert "self-change" not in effects("git switch main")
