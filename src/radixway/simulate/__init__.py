"""A trace-driven simulator: modelled engines, real routing code."""

from radixway.simulate.comparison import compare, read_policies
from radixway.simulate.engine_model import EngineConstants, EngineModel
from radixway.simulate.figures import Figures, figures_of
from radixway.simulate.simulation import Outcome, Setting, Simulation
from radixway.simulate.trace import Trace, TraceError, TraceRequest, read_trace

__all__ = [
    "EngineConstants",
    "EngineModel",
    "Figures",
    "Outcome",
    "Setting",
    "Simulation",
    "Trace",
    "TraceError",
    "TraceRequest",
    "compare",
    "figures_of",
    "read_policies",
    "read_trace",
]
