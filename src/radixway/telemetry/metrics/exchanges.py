"""One exchange with a client, whatever it took to answer it."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.registry import Collector

from radixway.telemetry.metrics.figures import Buckets, Count, Distribution, Tally

OTHER = "other"
_MOST_KINDS = 200
"""Codes of errors that are told apart. Ours are fewer; those of a middleware that makes them up are not."""


@dataclass(slots=True)
class _Known:
    """Where exchanges of one surface, model and status are counted: found once, with the first."""

    requests: Count
    latency: Buckets
    first_byte: Buckets


class Exchanges:
    """Counted as each ends."""

    def __init__(self) -> None:
        self._requests = Tally("radixway_requests", "Answered requests", ("surface", "model", "status"))
        self._latency = Distribution(
            "radixway_request_seconds",
            "Seconds from the request's arrival to its last byte",
            ("surface", "model"),
        )
        self._first_byte = Distribution(
            "radixway_first_byte_seconds",
            "Seconds from the request's arrival to the first byte of its answer",
            ("surface", "model"),
        )
        self._tenants = Distribution(
            "radixway_tenant_first_byte_seconds",
            "Seconds from the arrival of a tenant's request to the first byte of its answer",
            ("tenant",),
        )
        self._errors = Tally(
            "radixway_errors", "Requests that ended badly, by why", ("surface", "model", "kind")
        )
        self._disconnects = Tally("radixway_client_disconnects", "Requests whose client left before the end")
        self._broken = Tally("radixway_broken_streams", "Streams cut by a worker after their first byte")
        self.disconnects, self.broken_streams = self._disconnects.of(), self._broken.of()
        self._known: dict[tuple[str, str, int], _Known] = {}
        self._kinds: set[str] = set()

    def collectors(self) -> tuple[Collector, ...]:
        """What is to be told of them."""
        return (
            self._requests,
            self._latency,
            self._first_byte,
            self._tenants,
            self._errors,
            self._disconnects,
            self._broken,
        )

    def answered(
        self,
        surface: str,
        model: str,
        status: int,
        first_byte_s: float | None,
        total_s: float,
        *,
        tenant: str | None = None,
        trace_id: str | None = None,
    ) -> None:
        """One has ended. `first_byte_s` is None when nothing was sent; `tenant` where tenants are configured;
        `trace_id` if it is traced."""
        known = self._known.get((surface, model, status)) or self._find(surface, model, status)
        known.requests.value += 1
        known.latency.add(total_s, trace_id)
        if first_byte_s is not None:
            known.first_byte.add(first_byte_s, trace_id)
            if tenant is not None:
                self._tenants.of(tenant).add(first_byte_s, trace_id)

    def failed(self, surface: str, model: str, kind: str) -> None:
        """It ended badly; `kind` is the code that the client was told."""
        if kind not in self._kinds:
            if len(self._kinds) >= _MOST_KINDS:
                kind = OTHER
            self._kinds.add(kind)
        self._errors.of(surface, model, kind).value += 1

    def _find(self, surface: str, model: str, status: int) -> _Known:
        known = self._known[surface, model, status] = _Known(
            self._requests.of(surface, model, str(status)),
            self._latency.of(surface, model),
            self._first_byte.of(surface, model),
        )
        return known
