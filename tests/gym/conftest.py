"""The gym's containers stand in the docker daemon that the tests of environments start."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.gym.settings import GymSettings

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS / "environments"))
PACKAGES = (
    *("bash", "coreutils", "util-linux", "python3", "sed", "grep", "mawk", "findutils", "tar"),
    *("gzip", "procps", "iproute2", "hostname", "nginx"),
)


@pytest.fixture(scope="session")
def in_containers() -> Iterator[GymSettings]:
    """Settings with a real daemon and an image of this machine's own Debian packages."""
    import real_docker  # noqa: PLC0415 - found by the line above, not by pytest

    if shutil.which("dpkg-query") is None:
        pytest.skip("the image is made from Debian packages")
    daemon = real_docker.daemon()
    maker = TESTS.parent / "scripts" / "gym-image"
    tree = subprocess.run([maker, *PACKAGES], capture_output=True, check=True).stdout
    daemon.docker("import", "-", "hermes-gym:test", stdin=tree)
    yield GymSettings(backend="docker", docker_image="hermes-gym:test", docker_host=daemon.address)
    real_docker.stop()
