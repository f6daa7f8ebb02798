"""Links that a command unpacks, copies or checks out, and then writes or deletes through."""

import pytest
from reading import cases, effects

THROUGH_LINKS = """
tar xf /tmp/a.tar -C /tmp/x; echo y > /tmp/x/l/f
tar xf /tmp/a.tar -C /tmp/x; rm -rf /tmp/x/l/b
tar xf /tmp/a.tar -C /tmp/x; rm -rf /tmp/x/l/
tar xf /tmp/a.tar -C /tmp/x; find /tmp/x/l/ -delete
unzip a.zip -d /tmp/x && touch /tmp/x/l/f
cp -a src /tmp/x; echo > /tmp/x/l/f
cp -r src /tmp/x; rm /tmp/x/l/f
cp -P link /tmp/x/l; echo > /tmp/x/l/f
cp -d link /tmp/x/l; (cd /tmp/x/l; touch f)
rsync -a src/ /tmp/x; echo > /tmp/x/l/f
rsync -l src /tmp/x; tee /tmp/x/l/f < a
git switch b; echo y > l/f
cd /tmp/x; git switch b; rm -rf l/f
git -C /tmp/x checkout b; mkdir /tmp/x/l/f
"""
OTHERWISE = """
tar xf /tmp/a.tar -C /tmp/x; rm -rf /tmp/x
tar xf /tmp/a.tar -C /tmp/x; rm -rf /tmp/x/l
tar xf /tmp/a.tar -C /tmp/x; ls -R /tmp/x
cp a.txt /tmp/x; echo > /tmp/y/f
cp -a src /tmp/x; du -sh /tmp/x
"""


@pytest.mark.parametrize("command", cases(THROUGH_LINKS))
def test_a_path_that_may_lead_through_a_new_link_is_marked(command: str) -> None:
    assert {"unknown", "exec-dynamic"} & effects(command)


@pytest.mark.parametrize("command", cases(OTHERWISE))
def test_other_paths_are_not_marked(command: str) -> None:
    assert not {"unknown", "exec-dynamic"} & effects(command)
