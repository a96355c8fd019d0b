"""Simulations as jobs: each in a process of its own, one after another, with an end in any case."""

import asyncio
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import msgspec

from radixway.core.component import Component
from radixway.core.config import SimulationsConfig
from radixway.routing.simulator.engine_model import EngineConstants
from radixway.routing.simulator.simulation import SimulationSettings


class SimulationTask(msgspec.Struct, kw_only=True):
    """A simulation to run, with its limits."""

    trace: str
    """A path; messages name it as it is written here."""
    policies: str
    """Policies as on a command line."""
    workers: int
    kv_tokens: int
    speedup: float
    events: bool
    event_delay_s: float
    engine: str
    """Constants as on a command line; empty for the defaults."""
    block_tokens: int
    """A block, where the trace does not say."""
    limit: int | None
    """Replay only this many requests, the first ones."""
    most_requests: int
    """A trace with more is refused."""
    memory_bytes: int

    def to_settings(self) -> SimulationSettings:
        """Raises ValueError."""
        constants = EngineConstants.parse_constants(self.engine) if self.engine else EngineConstants()
        return SimulationSettings(
            self.workers, self.kv_tokens, self.speedup, self.events, self.event_delay_s, constants
        )


class SimulationMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A line of the answer."""

    total: int | None = None
    """Requests to be sent, of all policies together."""
    done: int | None = None
    result: dict[str, Any] | None = None
    error: str | None = None


JobState = Literal["waiting", "running", "done", "failed", "cancelled"]

TRACE = "trace"
"""The file's name in a job's folder, and so in messages about it."""

_MAX_LINE_BYTES = 8 * 2**20
_decode_message = msgspec.json.Decoder(SimulationMessage).decode


class SimulationQueueFullError(Exception):
    """Too many simulations wait already."""


@dataclass(slots=True, eq=False)
class SimulationJob:
    """A simulation: queued, running or finished."""

    id: str
    name: str
    """The caller's name for it."""
    task: SimulationTask
    folder: TemporaryDirectory[str]
    """Holds the trace, until it is over."""
    asked_at: float = field(default_factory=time.time)
    """Seconds since the epoch."""
    state: JobState = "waiting"
    total: int | None = None
    """Requests to be sent, of all policies together; None until the trace is read."""
    sent: int = 0
    took_s: float | None = None
    result: dict[str, Any] | None = None
    error: str | None = None
    work: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Return whether it has ended."""
        return self.state in ("done", "failed", "cancelled")


class SimulationJobQueue(Component):
    """The simulations of a gateway. They belong to its event loop."""

    name = "simulations"

    def __init__(self, section: SimulationsConfig) -> None:
        self._section = section
        self._jobs: dict[str, SimulationJob] = {}
        """By id, oldest first."""
        self._preparing = 0
        """Jobs whose traces are being loaded; they count, too."""
        self._turn = asyncio.Lock()

    def __iter__(self) -> Iterator[SimulationJob]:
        return iter(tuple(self._jobs.values()))

    async def stop(self) -> None:
        """Cancel all jobs and wait until their processes have ended."""
        await asyncio.gather(*(self.cancel_job(job) for job in self))

    @contextmanager
    def prepare_job(self, name: str, task: SimulationTask) -> Iterator[SimulationJob]:
        """A job whose trace is written to `trace_of` it in here; then it begins, when its turn comes.

        Raises SimulationQueueFullError.
        """
        waiting = self._preparing + sum(not job.is_over for job in self)
        if waiting > self._section.waiting:
            raise SimulationQueueFullError(
                f"{waiting} simulations wait or run: cancel one, or come back later"
            )
        job = SimulationJob(uuid.uuid4().hex, name, task, TemporaryDirectory(prefix="radixway-simulate-"))
        self._preparing += 1
        try:
            yield job
        except BaseException:
            job.folder.cleanup()
            raise
        finally:
            self._preparing -= 1
        self._jobs[job.id] = job
        job.work = asyncio.get_running_loop().create_task(self._run_job(job))

    def find_job(self, job_id: str) -> SimulationJob | None:
        """The job, if it is still remembered."""
        return self._jobs.get(job_id)

    async def cancel_job(self, job: SimulationJob) -> None:
        """Cancel `job` if it is not over, and wait for its end."""
        if job.work is not None and not job.is_over:
            job.work.cancel()
            await asyncio.wait({job.work})

    def remove_job(self, job: SimulationJob) -> None:
        """Forget `job` if it is over."""
        if job.is_over:
            self._jobs.pop(job.id, None)

    async def _run_job(self, job: SimulationJob) -> None:
        began = time.monotonic()
        try:
            async with self._turn:
                job.state, began = "running", time.monotonic()
                async with asyncio.timeout(self._section.time_s):
                    await self._run_process(job)
            ended: JobState = "failed" if job.result is None else "done"
        except TimeoutError:
            ended = "failed"
            job.error = f"this took longer than the {self._section.time_s:g} s that simulations may take"
        except asyncio.CancelledError:
            ended = "cancelled"
        job.took_s = time.monotonic() - began
        job.state = ended
        job.folder.cleanup()
        self._drop_finished()

    async def _run_process(self, job: SimulationJob) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "radixway.routing.simulator.simulation_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=job.folder.name,
            limit=_MAX_LINE_BYTES,
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(job.task) + b"\n")
            async for line in process.stdout:
                with suppress(msgspec.DecodeError):  # half a line of one that was killed
                    self._apply_message(job, _decode_message(line))
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if job.result is None and job.error is None:
            job.error = f"the process that simulated ended with {code} before it was done"

    def _apply_message(self, job: SimulationJob, message: SimulationMessage) -> None:
        if message.total is not None:
            job.total = message.total
        if message.done is not None:
            job.sent = message.done
        if message.error is not None:
            job.error = message.error
        if message.result is not None:
            job.result, job.sent = message.result, job.total or 0

    def _drop_finished(self) -> None:
        over = [job for job in self if job.is_over]
        for job in over[: max(0, len(over) - self._section.kept)]:
            del self._jobs[job.id]


def trace_path(job: SimulationJob) -> Path:
    """Return the path for the trace of `job`."""
    return Path(job.folder.name) / TRACE
