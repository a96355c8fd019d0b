"""Admitted pull workers, and the sessions of connected ones in any process: rows under renewed leases."""

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import msgspec
from sqlalchemy import delete, select, update
from sqlalchemy.exc import SQLAlchemyError

from radixway.chat.active_answers import ActiveAnswers
from radixway.chat.background_tasks import run_concurrently
from radixway.chat.database import ChatDatabase, insert_into
from radixway.chat.ids import hash_secret, new_id
from radixway.chat.model_configs import ServedModelConfig
from radixway.chat.notifications import wait_for_event
from radixway.chat.published_shapes import format_time
from radixway.chat.pull.frames import WorkerInfo, WorkerMetrics
from radixway.chat.records import PullWorkerRecord
from radixway.chat.schema import worker_sessions, workers

log = logging.getLogger(__name__)


_WORKERS = select(*(workers.c[name] for name in PullWorkerRecord.__slots__))


class PullWorkerStore:
    """The admitted workers, connected or not."""

    def __init__(self, database: ChatDatabase, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._clock = clock

    async def create_worker(self, name: str, *, trusted: bool = False) -> tuple[PullWorkerRecord, str]:
        """Create a worker called `name`; returns it with its key, which is not stored."""
        key, row = str(uuid.uuid4()), self._make_row(name, trusted)
        await self._database.execute(workers.insert().values(**row, key_hash=hash_secret(key)))
        return PullWorkerRecord(**row), key

    async def list_workers(self) -> list[PullWorkerRecord]:
        """List pull workers by age."""
        rows = await self._database.fetch_all(_WORKERS.order_by(workers.c.id))
        return [PullWorkerRecord(**row._mapping) for row in rows]

    async def find_by_key(self, key: str) -> PullWorkerRecord | None:
        """Return the worker that `key` belongs to."""
        row = await self._database.fetch_first(_WORKERS.where(workers.c.key_hash == hash_secret(key)))
        return None if row is None else PullWorkerRecord(**row._mapping)

    async def delete_worker(self, worker_id: str) -> None:
        """Delete `worker_id` and its key, if there is such a worker."""
        await self._database.execute(delete(workers).where(workers.c.id == worker_id))

    async def admit_workers(self, name: str, keys: Iterable[str]) -> None:
        """Admit workers with the configured `keys`; known ones stay as they are."""
        async with self._database.write_transaction() as write:
            for key in keys:
                row = self._make_row(name, False) | {"key_hash": hash_secret(key)}
                await write.execute(insert_into(write, workers).values(**row).on_conflict_do_nothing())

    def _make_row(self, name: str, trusted: bool) -> dict[str, Any]:
        return {"id": new_id(), "name": name, "trusted": trusted, "created_at": self._clock()}


_PERCENT = 100.0


WORKERS = "workers"
"""The topic of `TopicNotifier` for workers that came or left."""


@dataclass(slots=True)
class WorkerSession:
    """A worker's connection to this process."""

    worker_id: str
    info: WorkerInfo
    now: float
    id: str = field(default_factory=new_id)
    in_flight: int = 0
    metrics: WorkerMetrics | None = None
    processed: int = 0
    latency_s: float = 0.0
    tokens: int = 0
    generating_s: float = 0.0
    """Sum of the times from first token to end."""
    last_seen: float = 0.0

    def __post_init__(self) -> None:
        self.last_seen = self.now

    @property
    def model(self) -> ServedModelConfig:
        """The model that the worker serves."""
        shape = self.info.config.model_config
        lengths = shape.max_input_length, shape.max_total_length
        return ServedModelConfig(shape.model_id, shape.model_id, *lengths, shape.quantized)

    def record_answer(self, latency_s: float, tokens: int, generating_s: float) -> None:
        """Count a complete answer: its `latency_s`, its `tokens`, and `generating_s` since the first one."""
        self.processed += 1
        self.latency_s += latency_s
        self.tokens += tokens
        self.generating_s += generating_s

    def current_metrics(self) -> dict[str, Any] | None:
        """Return the reported metrics, completed by those measured here; None before there are any."""
        if self.metrics is None and not self.processed:
            return None
        metrics = self.metrics or WorkerMetrics()
        gpus = [gpu for gpu in metrics.gpus or () if gpu.gpu_usage is not None]
        measured = {
            "requests_processed": self.processed,
            "average_latency": self.latency_s / self.processed if self.processed else None,
            "tokens_per_second": self.tokens / self.generating_s if self.generating_s else None,
            "gpu_utilization": sum((gpu.gpu_usage or 0.0) / len(gpus) for gpu in gpus) if gpus else None,
        }
        published = dict.fromkeys(("created_at", "cpu_usage", "mem_usage", "swap_usage", "gpus"))
        current: dict[str, Any] = published | measured | msgspec.to_builtins(metrics)
        return current

    def to_row(self) -> dict[str, Any]:
        """Return the columns that are stored."""
        return {
            "worker_id": self.worker_id,
            "queue": self.model.compat_hash,
            "info": msgspec.to_builtins(self.info),
            "in_flight": self.in_flight,
            "metrics": self.current_metrics(),
            "last_seen": self.last_seen,
        }


class WorkerSessions:
    """The sessions of all processes on the database. Belongs to one event loop; works while `running()`."""

    def __init__(
        self, database: ChatDatabase, clock: Callable[[], float], answers: ActiveAnswers, *, lease_s: float
    ) -> None:
        """`lease_s`: how long a process may be silent before its workers count as gone."""
        self.on_change: list[Callable[[], None]] = []
        """Called when the set of fetched queues changes."""
        self.models: dict[str, ServedModelConfig] = {}
        """Models of workers connected to any process, by queue."""
        self.busy: Counter[str] = Counter()
        """How many of them there are, by queue."""
        self.gpus: dict[str, float] = {}
        """Average utilization of their GPUs, 0 to 1, by queue, where any of them reports it."""
        self._database = database
        self._clock = clock
        self._answers = answers
        self._lease_s = lease_s
        self._own: dict[str, WorkerSession] = {}
        self._looking = asyncio.Lock()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep `models`, `busy` and `gpus` up to date while this holds."""
        await self._renew_and_read()
        try:
            async with run_concurrently(self._renew_loop):
                yield
        finally:
            for session in tuple(self._own.values()):
                await self.close_session(session)

    async def open_session(self, session: WorkerSession) -> None:
        """Register `session`, whose worker has connected."""
        model, capacity = session.model.compat_hash, session.info.config.max_parallel_requests
        log.info("worker %s registered for %s, %d at a time", session.worker_id, model, capacity)
        self._own[session.id] = session
        await self._renew_and_read()
        await self._answers.notify_topic(WORKERS)

    async def close_session(self, session: WorkerSession) -> None:
        """Remove `session`, whose worker has left."""
        log.info("worker %s left after %d answers", session.worker_id, session.processed)
        self._own.pop(session.id, None)
        try:
            await self._database.execute(delete(worker_sessions).where(worker_sessions.c.id == session.id))
            await self._renew_and_read()
        except SQLAlchemyError as error:
            log.warning("the end of a worker's session could not be saved: %s", type(error).__name__)
        await self._answers.notify_topic(WORKERS)

    async def list_shapes(self) -> list[dict[str, Any]]:
        """Return all sessions as published `WorkerSession`s, with the time that each was last seen."""
        own = {session.id: session.to_row() for session in self._own.values()}
        known = select(worker_sessions).where(worker_sessions.c.lease_until > self._clock())
        rows = await self._database.fetch_all(known.order_by(worker_sessions.c.id))
        found = {row.id: dict(row._mapping) | own.get(row.id, {}) for row in rows}
        return [
            {
                "id": row["id"],
                "worker_id": row["worker_id"],
                "worker_info": row["info"],
                "requests_in_flight": row["in_flight"],
                "metrics": row["metrics"],
                "last_seen": format_time(row["last_seen"]),
            }
            for row in found.values()
        ]

    async def _renew_loop(self) -> None:
        while True:
            event = self._answers.topic_event(WORKERS)
            wait_s = self._lease_s / 3
            try:
                wait_s = await self._renew_and_read()
            except SQLAlchemyError as error:
                log.warning("worker sessions could not be saved: %s", type(error).__name__)
            await wait_for_event(event, wait_s)

    async def _renew_and_read(self) -> float:
        """Return the seconds until the next look, unless workers come or leave before."""
        async with self._looking:  # two at a time would both insert a new session
            return await self._exchange_rows()

    async def _exchange_rows(self) -> float:
        now = self._clock()
        async with self._database.write_transaction() as write:
            for session in tuple(self._own.values()):
                values = session.to_row() | {"lease_until": now + self._lease_s}
                mine = worker_sessions.c.id == session.id
                known = await write.execute(update(worker_sessions).where(mine).values(**values))
                if known.rowcount == 0:
                    await write.execute(worker_sessions.insert().values(id=session.id, **values))
            await write.execute(delete(worker_sessions).where(worker_sessions.c.lease_until <= now))
            columns = worker_sessions.c
            wanted = columns.queue, columns.info, columns.lease_until, columns.metrics
            rows = (await write.execute(select(*wanted))).all()
        before = set(self.models)
        self.models = {row.queue: _to_model_config(row.info) for row in rows}
        self.busy = Counter(row.queue for row in rows)
        self.gpus = _mean_utilisation((row.queue, row.metrics) for row in rows)
        if before != set(self.models):
            for callback in self.on_change:
                callback()
        left = min((row.lease_until for row in rows), default=now + self._lease_s) - now
        return min(left, self._lease_s / 3 if self._own else self._lease_s)


def _mean_utilisation(rows: Iterable[tuple[str, dict[str, Any] | None]]) -> dict[str, float]:
    shares: dict[str, list[float]] = {}
    for queue, metrics in rows:
        busy = (metrics or {}).get("gpu_utilization")
        if isinstance(busy, int | float) and 0 <= busy <= _PERCENT:
            shares.setdefault(queue, []).append(busy / _PERCENT)
    return {queue: fmean(ratios) for queue, ratios in shares.items()}


def _to_model_config(info: dict[str, Any]) -> ServedModelConfig:
    shape: dict[str, Any] = info["config"]["model_config"]
    return ServedModelConfig(name=shape["model_id"], **shape)
