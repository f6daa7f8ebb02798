"""What kubectl 1.20.2 printed for the queries on a real API server, shortened."""

PODS_OF_A_BAD_IMAGE = """\
pod\tshop\tweb-84f5df4d7f-q59ls\tPending\tReplicaSet/web-84f5df4d7f\t-
condition\tContainersReady\tContainersNotReady\t""
condition\tReady\tContainersNotReady\t""
container\tapp\tregistry.example/shop:9.9\tfalse\t0\twaiting\tImagePullBackOff\t-\t\
"Back-off pulling image \\"registry.example/shop:9.9\\""\t-\t-\t""
"""
STUCK_ROLLOUT = """\
workload\tDeployment\tshop\tweb\t2\t2\t1\t2\t2\t-\tmap[app:web]\tmap[app:web]
condition\tAvailable\tTrue\tMinimumReplicasAvailable\t"Deployment has minimum availability."
condition\tProgressing\tFalse\tProgressDeadlineExceeded\t\
"ReplicaSet \\"web-84f5df4d7f\\" has timed out progressing."
container\tapp\tregistry.example/shop:9.9\t128Mi\t64Mi\t100m
"""
REVISIONS = """\
revision\tshop\tweb\t1\t2\t2
container\tapp\timage=registry.example/shop:1.0\targs=["--workers=2"]\tlimits=map[memory:128Mi]
revision\tshop\tweb\t2\t1\t0
container\tapp\timage=registry.example/shop:9.9\targs=["--workers=2"]\tlimits=map[memory:128Mi]
"""
SERVICE_AND_ENDPOINTS = """\
service\tshop\tweb\tClusterIP\tmap[app:web]
endpoints\tshop\tweb\t++-
"""
BUDGET = """\
budget\tshop\tweb\t2\t-\t0\t2\t2\t2\tmap[app:web]
Warning: policy/v1beta1 PodDisruptionBudget is deprecated in v1.22+, unavailable in v1.25+
"""
COMPLETE_ROLLOUT = """\
workload\tDeployment\tshop\tweb\t2\t2\t2\t2\t1\t-\tmap[app:web]\tmap[app:web]
condition\tAvailable\tTrue\tMinimumReplicasAvailable\t"Deployment has minimum availability."
condition\tProgressing\tTrue\tNewReplicaSetAvailable\t\
"ReplicaSet \\"web-5557fff87d\\" has successfully progressed."
container\tapp\tregistry.example/shop:1.0\t128Mi\t64Mi\t100m
"""
EVENT_STORM = """\
event\t2026-11-17T11:59:01Z\t7\tshop\tPod/web-84f5df4d7f-q59ls\tFailed\t"image not found"
event\t2026-11-17T11:59:10Z\t3\tshop\tPod/web-84f5df4d7f-x2x4c\tFailed\t"image not found"
event\t2026-11-17T11:59:11Z\t1\tshop\tReplicaSet/web-84f5df4d7f\tFailedCreate\t"exceeded quota"
event\t2026-11-17T11:59:12Z\t4\tshop\tPod/db-0\tUnhealthy\t"Readiness probe failed"
event\t2026-11-17T11:20:00Z\t90\tshop\tPod/old-5557fff87d-aaaaa\tBackOff\t"Back-off"
event\t2026-11-17T11:59:30Z\t1\tshop\tPod/once-5557fff87d-bbbbb\tBackOff\t"Back-off"
"""
