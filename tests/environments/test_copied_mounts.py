"""The mounts of a host are put into a copy in an order in which none covers another."""

from hermes.environments.confinement.copied_root import read_mounts

MOUNTINFO = """\
31 23 0:29 / /srv/shop/home rw - tmpfs none rw
22 1 254:1 / / rw - ext4 /dev/vda1 rw
23 22 0:28 / /srv/shop rw - tmpfs none rw
24 22 0:30 / /mnt\\040two ro - ext4 /dev/vdb1 ro
33 31 0:31 / /srv/shop/home/locks rw - tmpfs none rw
"""


def test_parents_come_before_what_is_mounted_in_them() -> None:
    lines = MOUNTINFO.splitlines()
    for text in (MOUNTINFO, "\n".join(reversed(lines))):
        paths = [each.path for each in read_mounts(text)]
        assert sorted(paths) == [
            "/",
            "/mnt two",
            "/srv/shop",
            "/srv/shop/home",
            "/srv/shop/home/locks",
        ]
        for path in paths:
            inner = [each for each in paths if each.startswith(f"{path.rstrip('/')}/")]
            assert all(paths.index(path) < paths.index(each) for each in inner if each != path)
