"""A trace-driven simulator: modelled engines, real routing code."""

from radixway.simulate.engine_model import EngineConstants, EngineModel
from radixway.simulate.simulation import Outcome, Setting, Simulation
from radixway.simulate.trace import Trace, TraceError, TraceRequest, read_trace

__all__ = [
    "EngineConstants",
    "EngineModel",
    "Outcome",
    "Setting",
    "Simulation",
    "Trace",
    "TraceError",
    "TraceRequest",
    "read_trace",
]
