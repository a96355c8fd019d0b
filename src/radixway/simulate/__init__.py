"""A trace-driven simulator: modelled engines, real routing code."""

from radixway.simulate.comparison import compare_policies, parse_policies
from radixway.simulate.engine_model import EngineConstants, EngineModel
from radixway.simulate.figures import SimulationFigures, compute_figures
from radixway.simulate.jobs import SimulationJob, SimulationJobQueue, SimulationQueueFullError, trace_path
from radixway.simulate.samples import SAMPLES, make_sample_trace
from radixway.simulate.simulation import SimulationOutcome, SimulationSettings, TraceSimulation
from radixway.simulate.task import SimulationTask
from radixway.simulate.trace import RequestTrace, TraceError, TraceLine, TraceRequest, read_trace

__all__ = [
    "SAMPLES",
    "EngineConstants",
    "EngineModel",
    "RequestTrace",
    "SimulationFigures",
    "SimulationJob",
    "SimulationJobQueue",
    "SimulationOutcome",
    "SimulationQueueFullError",
    "SimulationSettings",
    "SimulationTask",
    "TraceError",
    "TraceLine",
    "TraceRequest",
    "TraceSimulation",
    "compare_policies",
    "compute_figures",
    "make_sample_trace",
    "parse_policies",
    "read_trace",
    "trace_path",
]
