"""Plans the number of replicas by role, from arrivals, lengths, queues and objectives.

It proposes and starts nothing: Ray Serve, an HPA or people read what it says.
"""

from radixway.cluster.planner.capacity_model import CapacityModel, ExpectedLatency, PlannedRole, ReplicaNeed
from radixway.cluster.planner.forecast import Forecast, find_forecast
from radixway.cluster.planner.model_planner import (
    ModelPlan,
    ModelPlanner,
    RolePlan,
    RoleReplicas,
    ScaleDownStabilizer,
)
from radixway.cluster.planner.ray_autoscaler import RayPolicy, ray_policy
from radixway.cluster.planner.service import PlannerService, build_plan_routes
from radixway.cluster.planner.traffic_window import (
    RatioHistogram,
    TrafficDemand,
    TrafficWindow,
    estimate_demand,
)

__all__ = [
    "CapacityModel",
    "ExpectedLatency",
    "Forecast",
    "ModelPlan",
    "ModelPlanner",
    "PlannedRole",
    "PlannerService",
    "RatioHistogram",
    "RayPolicy",
    "ReplicaNeed",
    "RolePlan",
    "RoleReplicas",
    "ScaleDownStabilizer",
    "TrafficDemand",
    "TrafficWindow",
    "build_plan_routes",
    "estimate_demand",
    "find_forecast",
    "ray_policy",
]
