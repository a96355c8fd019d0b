"""Words for why no worker can answer a request, without naming those out of reach."""

from collections import Counter
from collections.abc import Iterable, Mapping

from radixway.routing import Worker, WorkerRegistry, WorkerState
from radixway.routing.worker import ErrorKind

_KINDS: Mapping[ErrorKind, str] = {
    "certificate": "a TLS certificate that is not valid",
    "defect": "a defect of the gateway",
    "misconfigured": "a provider's key that is missing or refused",
    "name": "a name that does not resolve",
    "no_http": "something that does not speak HTTP",
    "refused": "connections refused",
    "timeout": "no answer in time",
    "tls": "TLS that fails",
    "unreachable": "a network error",
    "unwell": "a health check that fails",
}
"""Error kinds as clients see them, without addresses."""


def explain_no_candidate(registry: WorkerRegistry, model: str | None) -> str:
    """Explain why no worker is a candidate; an unknown model may be a silent worker's."""
    message = "no worker can answer now" + (f" for the model {model!r}" if model else "")
    for worker in registry:
        if worker.state is WorkerState.STALE and (model is None or model in worker.models):
            message += f"; {worker.name} waits for weights: {worker.last_error}"
            break
    message += explain_unavailable(
        each for each in registry if model is None or model in (each.models or (model,))
    )
    if model is None or model in registry.known_models():
        return message
    silent = [worker.name for worker in registry if not worker.models]
    return message + (f"; not yet heard from: {', '.join(silent)}" if silent else "")


def explain_unavailable(workers: Iterable[Worker]) -> str:
    """Explain why workers are unavailable without naming them."""
    kinds = Counter(worker.error_kind for worker in workers if worker.error_kind is not None)
    counts = [f"{count} × {_KINDS[kind]}" for kind, count in sorted(kinds.items())]
    return f"; out of reach: {', '.join(counts)}" if counts else ""
