"""Plans the number of replicas by role, from arrivals, lengths, queues and objectives.

It proposes and starts nothing: Ray Serve, an HPA or people read what it says.
"""

from radixway.cluster.planner.ray_autoscaler import RayPolicy, ray_policy
from radixway.cluster.planner.service import PlannerService, build_plan_routes

__all__ = [
    "PlannerService",
    "RayPolicy",
    "build_plan_routes",
    "ray_policy",
]
