"""A second copy of a request, to another worker, when the first byte is late; who begins first answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from radixway.pipeline import Reply, Request, WorkerFailed
from radixway.routing import Hedging
from radixway.telemetry import Metrics
from radixway.transports.admission import Admission
from radixway.transports.place import Place

Attempt = Callable[[Request, Place], Coroutine[Any, Any, Reply]]
"""Carries a request to a place. Raises WorkerFailed."""

_Running = dict[asyncio.Task[Reply], Place]


class Hedge:
    """Never more than one copy of a request, and no more copies in all than the budget allows.

    What workers are asked leaves nothing behind, whatever the endpoint, so a copy does no harm.
    """

    def __init__(self, hedging: Hedging, admission: Admission, attempt: Attempt, metrics: Metrics) -> None:
        self._hedging = hedging
        self._admission = admission
        self._attempt = attempt
        self._metrics = metrics

    async def send(self, request: Request, place: Place) -> Reply:
        """The first answer. Raises WorkerFailed when there is none."""
        began_s = request.journal.elapsed_s()
        delay_s = self._delay_s(request) if place.prefill is None else None
        if delay_s is None:
            reply = await self._attempt(request, place)
        else:
            reply = await self._race(request, place, delay_s)
        self._hedging.began(request.known_model, request.stream, request.journal.elapsed_s() - began_s)
        return reply

    def _delay_s(self, request: Request) -> float | None:
        if request.pinned is not None or request.tried:
            return None
        if request.carrier is not None:
            return None  # it carries one copy
        return self._hedging.delay_s(request.known_model, request.stream)

    async def _race(self, request: Request, place: Place, delay_s: float) -> Reply:
        running: _Running = {}
        winner: asyncio.Task[Reply] | None = None
        try:
            first = self._start(request, place, running)
            await asyncio.wait(running, timeout=delay_s)
            copy = None if first.done() else self._place_for_copy(request, place, delay_s)
            if copy is not None:
                self._start(request, copy, running)
            winner = await _first_answer(request, running)
            if copy is not None:
                self._metrics.hedged("lost" if winner is first else "won")
            return winner.result()
        finally:
            await _drop({task: place for task, place in running.items() if task is not winner})

    def _start(self, request: Request, place: Place, running: _Running) -> asyncio.Task[Reply]:
        task = asyncio.get_running_loop().create_task(self._attempt(request, place))
        running[task] = place
        return task

    def _place_for_copy(self, request: Request, first: Place, delay_s: float) -> Place | None:
        if not self._hedging.affordable:
            return None
        place = self._admission.second_place(request, first)
        if place is not None:
            self._hedging.spend()
            request.journal.add("hedge", worker=place.worker.name, after_s=round(delay_s, 6))
        return place


async def _first_answer(request: Request, running: _Running) -> asyncio.Task[Reply]:
    """The attempt that answers first. Raises the last one's WorkerFailed when all have failed."""
    pending = set(running)
    while True:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        answered = [task for task in running if task in done and task.exception() is None]
        if answered:
            return answered[0]
        for task in done:
            failure = task.exception()
            if not (pending and isinstance(failure, WorkerFailed)):
                task.result()  # raises it
            request.tried.append(running[task].worker.name)


async def _drop(losers: _Running) -> None:
    """Stop what is under way and let go of its workers, whether it had begun, answered or failed."""
    for task in losers:
        task.cancel()
    outcomes = await asyncio.gather(*losers, return_exceptions=True)
    for outcome, place in zip(outcomes, losers.values(), strict=True):
        if isinstance(outcome, Reply) and outcome.chunks is not None:
            await outcome.chunks.aclose()
        place.release()
