"""One real cluster for all tests of this folder."""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from node_agent import NodeAgent
from real_cluster import ADMIN_TOKEN, RealCluster, build_folder, run_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[RealCluster]:
    # Not below /tmp: the policy does not trust a kubeconfig that anybody may have written there.
    with TemporaryDirectory(dir=build_folder(), prefix="run-") as name:
        folder = Path(name)
        with run_cluster(folder) as cluster, NodeAgent(cluster.client, folder).run():
            home = folder / "user"
            (home / ".kube").mkdir(parents=True)
            cluster.write_kubeconfig("user/.kube/config", ADMIN_TOKEN)
            yield cluster
