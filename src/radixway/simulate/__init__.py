"""A trace-driven simulator: modelled engines, real routing code."""

from radixway.simulate.comparison import compare, read_policies
from radixway.simulate.engine_model import EngineConstants, EngineModel
from radixway.simulate.figures import Figures, figures_of
from radixway.simulate.jobs import Full, Job, Jobs, trace_of
from radixway.simulate.samples import SAMPLES, sample
from radixway.simulate.simulation import Outcome, Setting, Simulation
from radixway.simulate.task import Task
from radixway.simulate.trace import Trace, TraceError, TraceLine, TraceRequest, read_trace

__all__ = [
    "SAMPLES",
    "EngineConstants",
    "EngineModel",
    "Figures",
    "Full",
    "Job",
    "Jobs",
    "Outcome",
    "Setting",
    "Simulation",
    "Task",
    "Trace",
    "TraceError",
    "TraceLine",
    "TraceRequest",
    "compare",
    "figures_of",
    "read_policies",
    "read_trace",
    "sample",
    "trace_of",
]
