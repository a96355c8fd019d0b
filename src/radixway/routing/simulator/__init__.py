"""A trace-driven simulator: modelled engines, real routing code."""

from radixway.routing.simulator.comparison import compare_policies, parse_policies
from radixway.routing.simulator.engine_model import EngineConstants
from radixway.routing.simulator.job_queue import (
    SimulationJob,
    SimulationJobQueue,
    SimulationQueueFullError,
    SimulationTask,
    trace_path,
)
from radixway.routing.simulator.report import SimulationFigures, compute_figures
from radixway.routing.simulator.simulation import SimulationOutcome, SimulationSettings
from radixway.routing.simulator.trace import (
    SAMPLES,
    RequestTrace,
    TraceError,
    TraceLine,
    make_sample_trace,
    read_trace,
)

__all__ = [
    "SAMPLES",
    "EngineConstants",
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
    "compare_policies",
    "compute_figures",
    "make_sample_trace",
    "parse_policies",
    "read_trace",
    "trace_path",
]
