"""How many replicas there should be, by role: from arrivals, lengths, queues and objectives.

It proposes and starts nothing: Ray Serve, an HPA or people read what it says.
"""

from radixway.scale.planner.capacity import Capacity, Expected, Need, PlannedRole
from radixway.scale.planner.forecast import Forecast, forecaster
from radixway.scale.planner.modes import Fleet
from radixway.scale.planner.patience import Patience
from radixway.scale.planner.planner import ModelPlanner, Plan, RolePlan
from radixway.scale.planner.ray_autoscaling import RayPolicy, ray_policy
from radixway.scale.planner.room import PlannerRoom, plan_routes
from radixway.scale.planner.traffic import Demand, Histogram, Traffic, demand_of

__all__ = [
    "Capacity",
    "Demand",
    "Expected",
    "Fleet",
    "Forecast",
    "Histogram",
    "ModelPlanner",
    "Need",
    "Patience",
    "Plan",
    "PlannedRole",
    "PlannerRoom",
    "RayPolicy",
    "RolePlan",
    "Traffic",
    "demand_of",
    "forecaster",
    "plan_routes",
    "ray_policy",
]
