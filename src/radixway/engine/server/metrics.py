"""The engine's Prometheus metrics: what its server measured, and the engine's own counts at each scrape."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from radixway.core.telemetry import render_exposition
from radixway.core.telemetry.gpus import GpuMonitor, GpuStatus
from radixway.engine.disaggregation import TransferStats
from radixway.engine.engine_info import EngineStats
from radixway.engine.tiers import TierStats


class EngineGpuMonitor:
    """Reads how busy the engine's GPU is, through `nvidia-smi`. Belongs to one event loop."""

    def __init__(self, device: str) -> None:
        self._id = find_gpu_uuid(device)
        self._gpus = GpuMonitor() if self._id is not None else None

    async def read_utilisation(self) -> dict[str, float]:
        """The GPU's utilisation from 0 to 1, by its number on this machine; empty if that is not known."""
        return {} if self._gpus is None else select_utilisation(await self._gpus.read_gpus(), self._id)


def select_utilisation(gpus: Sequence[GpuStatus], uuid: str | None) -> dict[str, float]:
    """The utilisation of the GPU `uuid` among `gpus`, by its number; empty if that is not known."""
    return {
        str(number): gpu.busy / 100
        for number, gpu in enumerate(gpus)
        if gpu.busy is not None and gpu.uuid.removeprefix("GPU-") == uuid
    }


def find_gpu_uuid(device: str) -> str | None:
    """The driver's id of torch's `device`: torch's number means little where some devices are hidden."""
    if not device.startswith("cuda"):
        return None
    import torch

    return str(torch.cuda.get_device_properties(torch.device(device)).uuid)


_FIRST_TOKEN_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_LATENCY_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class ServerMetrics:
    """A server's metrics in a registry of their own."""

    def __init__(self, stats: Callable[[], EngineStats]) -> None:
        self.gpu_utilisation: Mapping[str, float] = {}
        """Load of the engine's GPU, by number; set before each scrape."""
        self._registry = CollectorRegistry()
        self._registry.register(_EngineCollector(stats, lambda: self.gpu_utilisation))
        self.first_token_s = Histogram(
            "radixway_engine_time_to_first_token_seconds",
            "Seconds from a request's arrival to its first sampled token",
            buckets=_FIRST_TOKEN_S,
            registry=self._registry,
        )
        self.latency_s = Histogram(
            "radixway_engine_e2e_request_latency_seconds",
            "Seconds from a request's arrival to the end of its answer",
            buckets=_LATENCY_S,
            registry=self._registry,
        )
        self.responses = Counter(
            "radixway_engine_http_responses",
            "Answered HTTP requests; status 499 where the client left first",
            ["path", "status"],
            registry=self._registry,
        )

    def render_metrics(self) -> bytes:
        """The Prometheus text exposition."""
        return render_exposition(self._registry.collect(), "").body


class _EngineCollector(Collector):
    def __init__(
        self, stats: Callable[[], EngineStats], gpu_utilisation: Callable[[], Mapping[str, float]]
    ) -> None:
        self._stats = stats
        self._gpu_utilisation = gpu_utilisation

    def collect(self) -> Iterator[Metric]:
        stats = self._stats()
        for family_type, name, field, text in _METRICS:
            yield family_type(f"radixway_engine_{name}", text, value=getattr(stats, field))
        yield from _tier_metrics(stats.tiers)
        yield from _transfer_metrics(stats.transfers)
        gpus = GaugeMetricFamily(
            "radixway_engine_gpu_utilisation_ratio",
            "How busy the GPU is that the engine runs on, 0 to 1",
            labels=["gpu"],
        )
        for number, share in self._gpu_utilisation().items():
            gpus.add_metric([number], share)
        yield gpus


_FieldMetrics: TypeAlias = tuple[tuple[type[CounterMetricFamily | GaugeMetricFamily], str, str, str], ...]
"""Kind and name of each metric, the field of the stats behind it, and its help."""

_METRICS: _FieldMetrics = (
    (GaugeMetricFamily, "requests_running", "running", "Requests in the batch"),
    (GaugeMetricFamily, "requests_waiting", "waiting", "Requests in the queue"),
    (GaugeMetricFamily, "requests_loading", "loading", "Requests whose prefix comes up from a lower tier"),
    (GaugeMetricFamily, "requests_departing", "departing", "Finished requests whose KV is still being sent"),
    (GaugeMetricFamily, "kv_tokens", "kv_total", "Tokens the KV pool holds at most"),
    (GaugeMetricFamily, "kv_used_tokens", "kv_used", "Tokens of KV held by running requests"),
    (GaugeMetricFamily, "kv_cached_tokens", "kv_cached", "Tokens of KV kept for reuse and free to evict"),
    (GaugeMetricFamily, "kv_usage_ratio", "kv_usage", "Share of the KV pool held by running requests"),
    (CounterMetricFamily, "requests", "requests", "Requests submitted"),
    (CounterMetricFamily, "prompt_tokens", "prompt_tokens", "Prompt tokens received"),
    (CounterMetricFamily, "cached_prompt_tokens", "cached_tokens", "Prompt tokens found in the cache"),
    (
        CounterMetricFamily,
        "remote_prompt_tokens",
        "remote_tokens",
        "Prompt tokens whose KV came from a prefill engine",
    ),
    (CounterMetricFamily, "generation_tokens", "generated_tokens", "Tokens sampled"),
    (CounterMetricFamily, "preemptions", "preemptions", "Requests put back into the queue for want of KV"),
    (CounterMetricFamily, "evicted_tokens", "evicted_tokens", "Cached tokens dropped to make room"),
)
_TIER_METRICS: _FieldMetrics = (
    (GaugeMetricFamily, "tokens", "total", "Tokens a tier holds at most"),
    (GaugeMetricFamily, "cached_tokens", "cached", "Tokens in a tier"),
    (CounterMetricFamily, "hit_tokens", "hit_tokens", "Prompt tokens found in a tier and in none above it"),
    (CounterMetricFamily, "evicted_tokens", "evicted_tokens", "Tokens that had to make room in a tier"),
    (
        CounterMetricFamily,
        "lost_tokens",
        "lost_tokens",
        "Tokens not copied to a tier because copying was behind, or found damaged there",
    ),
)


def _tier_metrics(tiers: Mapping[str, TierStats]) -> Iterator[Metric]:
    for family_type, name, field, text in _TIER_METRICS:
        family = family_type(f"radixway_engine_tier_{name}", text, labels=["tier"])
        for tier, stats in tiers.items():
            family.add_metric([tier], getattr(stats, field))
        yield family


def _transfer_metrics(transfers: TransferStats | None) -> Iterator[Metric]:
    """Return the KV sent by a prefill engine or received by a decode engine; empty for others."""
    ended = CounterMetricFamily(
        "radixway_engine_kv_transfers", "Transfers of KV between engines that have ended", labels=["outcome"]
    )
    crossed = CounterMetricFamily("radixway_engine_kv_transfer_bytes", "Bytes of KV that crossed", labels=[])
    under_way = GaugeMetricFamily(
        "radixway_engine_kv_transfers_under_way", "Transfers of KV under way", labels=[]
    )
    if transfers is not None:
        ended.add_metric(["whole"], transfers.complete)
        ended.add_metric(["failed"], transfers.failed)
        crossed.add_metric([], transfers.size_bytes)
        under_way.add_metric([], transfers.under_way)
    yield from (ended, crossed, under_way)
