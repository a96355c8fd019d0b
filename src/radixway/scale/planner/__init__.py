"""How many replicas there should be, by role: from arrivals, lengths, queues and objectives.

It proposes and starts nothing: Ray Serve, an HPA or people read what it says.
"""

from radixway.scale.planner.capacity import CapacityModel, ExpectedLatency, PlannedRole, ReplicaNeed
from radixway.scale.planner.forecast import Forecast, find_forecast
from radixway.scale.planner.modes import RoleReplicas
from radixway.scale.planner.patience import ScaleDownStabilizer
from radixway.scale.planner.planner import ModelPlan, ModelPlanner, RolePlan
from radixway.scale.planner.ray_autoscaling import RayPolicy, ray_policy
from radixway.scale.planner.room import PlannerService, build_plan_routes
from radixway.scale.planner.traffic import RatioHistogram, TrafficDemand, TrafficWindow, estimate_demand

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
