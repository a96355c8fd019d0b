"""What a request's journal says at its end: what was sent, and in which model's name."""

from __future__ import annotations

from typing import Any, NamedTuple

from radixway.pipeline import Request


class RequestSummary(NamedTuple):
    """The journal's last entry, as far as its client is concerned."""

    status: int
    """The status sent; 499 (client closed request) while none was."""
    first_byte_s: float | None
    """Seconds from the request's arrival to the first byte of its answer; None if nothing was sent."""
    model: str | None
    """The model that its worker was asked for, or that answered once before."""
    category: str | None
    decision: str | None

    def explain(self) -> dict[str, Any]:
        """For the journal; without what nobody knows."""
        told: dict[str, Any] = {"status": self.status}
        if self.first_byte_s is not None:
            told["first_byte_ms"] = round(self.first_byte_s * 1e3, 3)
        named = {"model": self.model, "category": self.category, "decision": self.decision}
        return told | {name: value for name, value in named.items() if value is not None}


def summarize_request(request: Request, status: int, first_byte_s: float | None) -> RequestSummary:
    """The end of a request for which nobody does anything any more."""
    known = None if request.metrics_model == "unknown" else request.metrics_model
    return RequestSummary(
        status, first_byte_s, request.resolved_model or known, request.category, request.decision
    )
