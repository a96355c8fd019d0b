"""When a request leaves the own machines: which of its candidates are asked, own workers or hosted ones."""

from collections.abc import Sequence
from math import ceil
from time import monotonic
from typing import Any

from radixway.core.config import HostedWorkerSettings, OverflowConfig
from radixway.core.pipeline import GatewayError, NoWorkersError, Request
from radixway.routing import Worker, WorkerRegistry
from radixway.routing.transports.hosted.transport import HostedForbiddenError, may_serve


class QueueTooLongError(NoWorkersError):
    """Own workers would take longer than a request may wait before it is hosted."""

    code = "queue_too_long"


class HostedLimitError(NoWorkersError):
    """Every provider has said that there were too many requests."""

    status = 429
    code = "provider_rate_limited"


class OverflowRule:
    """Own workers first. Hosted ones where none of these can answer, or not soon enough."""

    def __init__(self, config: OverflowConfig) -> None:
        self.queue_s = config.queue_s
        self.model = None if config.to == "hosted" else config.to
        """The model that answers in place of any own one; None: hosted workers of the same model do."""

    def choose_tier(self, request: Request, ready: Sequence[Worker]) -> Sequence[Worker]:
        """Return those of `ready` that are asked: own ones while one of them may answer, else hosted ones."""
        hosted = self.filter_hosted(request, ready)
        own = [worker for worker in ready if worker.hosted is None]
        if not hosted:
            return own
        if own and request.routing.overflow is None:
            failed = request.routing.failed_workers
            untried = [worker for worker in own if worker.name not in failed and not worker.breaker.tripped]
            if untried:
                return own
            request.routing.overflow = "own workers fail"
        elif not own and request.routing.overflow is None:
            request.routing.overflow = "no own worker can answer"
        return hosted

    def filter_hosted(self, request: Request, ready: Sequence[Worker]) -> list[Worker]:
        """Return the hosted workers among `ready` that may be asked now."""
        if request.clearance is not None and not request.clearance.may_leave:
            return []
        now = monotonic()
        return [
            worker
            for worker in ready
            if worker.hosted is not None
            and worker.limited_until <= now
            and may_serve(worker, request.endpoint)
        ]

    def explain_refusal(self, request: Request, ready: Sequence[Worker]) -> GatewayError | None:
        """Return why none of the hosted workers in `ready` may be asked; None where there are none."""
        hosted = [worker for worker in ready if worker.hosted is not None]
        if not hosted:
            return None
        if request.clearance is not None and not request.clearance.may_leave:
            return HostedForbiddenError()
        able = [worker for worker in hosted if may_serve(worker, request.endpoint)]
        if not able:
            providers = ", ".join(
                sorted({str(worker.hosted and worker.hosted.provider) for worker in hosted})
            )
            return GatewayError(
                f"{request.model!r} is hosted ({providers}), where there is no {request.endpoint.path}",
                status=400,
                code="unsupported",
                param="model",
            )
        wait_s = max(1, ceil(min(worker.limited_until for worker in able) - monotonic()))
        return HostedLimitError(
            "the provider has said that there were too many requests", retry_after_s=wait_s
        )


def describe_hosted(
    request: Request, registry: WorkerRegistry, settings: HostedWorkerSettings, model: str
) -> dict[str, Any]:
    """Return the journal's step `hosted`: the provider, its name of `model`, why no own worker answers, what
    it costs."""
    fields: dict[str, Any] = {"provider": settings.provider, "model": settings.names.get(model, model)}
    own = [each.models for each in registry if each.hosted is None]
    if request.routing.fallback_model is not None or any(
        request.model in models or model in models for models in own
    ):
        fields["overflow"] = request.routing.overflow
    if (pricing := settings.pricing_of(model)) is not None:
        fields |= pricing.model_dump()
        if (tokens := request.routing.prompt_tokens) is not None:
            fields["prompt_cost"] = pricing.cost(tokens, 0)
    return fields
