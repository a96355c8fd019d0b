"""Two workers for one answer: one prefills the prompt, the other takes its KV and answers.

vLLM, one after the other::

    prefill worker   ├── prefill ──┤ kv_transfer_params
    decode worker                  ├─ fetch KV ─┼── tokens ──►

SGLang, both at once::

    prefill worker   ├─ meet ─┼── prefill, KV to the decode worker ──┤ its answer is dropped
    decode worker    ├─ meet ─┼── wait for the KV ──────────────────┼── tokens ──►

Whatever happens before the first byte of the decode worker's answer (a worker dies or hangs, the client
leaves), both places are given back, and the pipeline tries another pair as it tries another worker.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol

from radixway.core.pipeline import Reply, Request, WorkerFailedError
from radixway.routing import Worker, WorkerLease
from radixway.routing.transports.assignment import WorkerAssignment
from radixway.routing.transports.kv_transfer import (
    build_sglang_pair,
    build_vllm_decode,
    build_vllm_prefill,
    strip_transfer_fields,
)

log = logging.getLogger(__name__)

_PREFILL_GRACE_S = 5.0
"""Time for a prefill worker to finish once its KV was used."""


class SendAttempt(Protocol):
    """Brings a request to a worker (see `HttpTransport.send_request`) and notes what became of it."""

    def __call__(
        self, request: Request, worker: Worker, lease: WorkerLease, *, prefill_only: bool = False
    ) -> Coroutine[Any, Any, Reply]: ...


class DisaggregatedDispatch:
    """Carries requests to pairs of workers."""

    def __init__(self, carry: SendAttempt) -> None:
        self._carry = carry
        self._ending: set[asyncio.Task[Reply]] = set()
        """Prefills whose KV has arrived and whose replies are discarded."""
        self._silent: set[str] = set()
        """Workers that hand over no KV."""

    async def send_to_pair(
        self, request: Request, prefill: WorkerAssignment, decode: WorkerAssignment
    ) -> Reply:
        """The decode worker's answer. Both leases are released when it has been read or closed.

        Raises WorkerFailedError if either worker fails before the first byte of it.
        """
        in_turn = decode.worker.dialect == "vllm"
        try:
            return await (self._send_sequential if in_turn else self._send_concurrent)(
                request, prefill, decode
            )
        except BaseException:
            prefill.lease.release()
            decode.lease.release()
            raise

    async def _send_sequential(
        self, request: Request, prefill: WorkerAssignment, decode: WorkerAssignment
    ) -> Reply:
        """Send to vLLM workers: a prefill that is refused, or hands over nothing, is left to the decode
        worker."""
        prefilled = await self._run_prefill(build_vllm_prefill(request), prefill)
        _raise_if_broken(prefilled)
        going_on = build_vllm_decode(request, prefilled.body) if prefilled.status == 200 else None
        self._journal_prefill(request, prefill, prefilled.status, handed_on=going_on is not None)
        if going_on is None and prefilled.status == 200 and prefill.worker.name not in self._silent:
            self._silent.add(prefill.worker.name)
            log.warning(
                "worker %s prefilled but returned no transfer parameters: does it run with a KV connector?",
                prefill.worker.name,
            )
        reply = await self._carry(going_on or strip_transfer_fields(request), decode.worker, decode.lease)
        return _with_prefill_header(reply, prefill if going_on is not None else None)

    async def _send_concurrent(
        self, request: Request, prefill: WorkerAssignment, decode: WorkerAssignment
    ) -> Reply:
        """SGLang. The decode worker waits for the prefill, so a failed prefill ends both.

        Our own engine does not wait for one that has failed: it computes the prompt itself.
        """
        paired = build_sglang_pair(request, prefill.worker)
        loop = asyncio.get_running_loop()
        prefilling = loop.create_task(self._run_prefill(paired, prefill))
        answering = loop.create_task(self._carry(paired, decode.worker, decode.lease))
        handed_on = True
        try:
            await asyncio.wait((prefilling, answering), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                prefilled = _prefill_outcome(prefilling)
                handed_on = isinstance(prefilled, Reply) and prefilled.status == 200
                if not handed_on and not decode.worker.answers_alone:
                    return _reply_or_raise(
                        prefilled
                    )  # the client's mistake: the decode worker would wait for nothing
                status = prefilled.status if isinstance(prefilled, Reply) else None
                self._journal_prefill(request, prefill, status, handed_on=handed_on)
            reply = await answering
            _raise_if_broken(reply)
            if reply.status == 200:
                self._drain_prefill(prefilling, prefill.lease)
            return _with_prefill_header(reply, prefill if handed_on else None)
        finally:
            if prefilling not in self._ending:
                await _cancel_prefill(prefilling)
                prefill.lease.release()  # a task that is cancelled before its first step does not do so
            await _cancel_prefill(answering)
            if answering.cancelled():
                decode.lease.release()

    async def _run_prefill(self, request: Request, leg: WorkerAssignment) -> Reply:
        """Return the prefill worker's whole reply."""
        return await self._carry(request.copy(stream=False), leg.worker, leg.lease, prefill_only=True)

    def _journal_prefill(
        self, request: Request, leg: WorkerAssignment, status: int | None, *, handed_on: bool
    ) -> None:
        request.journal.add("prefill", worker=leg.worker.name, status=status, handed_on=handed_on)

    def _drain_prefill(self, prefilling: asyncio.Task[Reply], lease: WorkerLease) -> None:
        """Discard the rest of a prefill's reply, if it comes soon."""
        self._ending.add(prefilling)
        grace_timer = asyncio.get_running_loop().call_later(_PREFILL_GRACE_S, prefilling.cancel)

        def ended(prefilling: asyncio.Task[Reply]) -> None:
            grace_timer.cancel()
            lease.release()
            self._ending.discard(prefilling)
            if not prefilling.cancelled() and (error := prefilling.exception()) is not None:
                log.debug("a prefill failed after its KV had been received: %s", error)

        prefilling.add_done_callback(ended)


async def _cancel_prefill(task: asyncio.Task[Reply]) -> None:
    """Cancel the prefill if it runs, and consume its result."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _prefill_outcome(prefilling: asyncio.Task[Reply]) -> Reply | WorkerFailedError:
    try:
        return prefilling.result()
    except WorkerFailedError as failure:
        return failure


def _reply_or_raise(prefilled: Reply | WorkerFailedError) -> Reply:
    """Return the reply if a client can have it, or raise."""
    if isinstance(prefilled, WorkerFailedError):
        raise prefilled
    _raise_if_broken(prefilled)
    return prefilled


def _raise_if_broken(reply: Reply) -> None:
    """Raise for a 5xx of one of two: another pair may answer."""
    if reply.status >= 500:
        raise WorkerFailedError(reply.worker, "unavailable", f"it answered {reply.status}", reply=reply)


def _with_prefill_header(reply: Reply, prefill: WorkerAssignment | None) -> Reply:
    if prefill is not None:
        reply.headers.append((b"x-radixway-prefill-worker", prefill.worker.name.encode("ascii")))
    return reply
