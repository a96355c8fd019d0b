"""`/simulate`: policies compared on a trace that is sent, made up, or taken from the latest requests.

A simulation is a job in a process of its own; here it is asked for, looked at and ended.
"""

from radixway.api.simulations.routes import simulation_routes

__all__ = ["simulation_routes"]
