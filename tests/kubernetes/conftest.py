"""One real cluster for all tests of this folder."""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from node_agent import NodeAgent
from real_cluster import ADMIN_TOKEN, RealCluster, run_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[RealCluster]:
    # Not below /tmp or a cache, where the build is by default: the policy does not trust a
    # kubeconfig there, because any program may have written it.
    with TemporaryDirectory(dir=Path.home(), prefix=".hermes-cluster-") as name:
        folder = Path(name)
        with run_cluster(folder) as cluster, NodeAgent(cluster.client, folder).run():
            home = folder / "user"
            (home / ".kube").mkdir(parents=True)
            cluster.write_kubeconfig("user/.kube/config", ADMIN_TOKEN)
            yield cluster
