"""The engine's Prometheus metrics: what its server measured, and the engine's own counts at each scrape."""

from collections.abc import Callable, Iterator, Mapping, Sequence

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
_WHOLE_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class ServerMetrics:
    """One server's metrics in a registry of their own."""

    def __init__(self, stats: Callable[[], EngineStats]) -> None:
        self.gpu_utilisation: Mapping[str, float] = {}
        """Of the GPU that the engine runs on, by number; set before each scrape."""
        self._registry = CollectorRegistry()
        self._registry.register(_EngineCollector(stats, lambda: self.gpu_utilisation))
        self.first_token_s = Histogram(
            "radixway_engine_time_to_first_token_seconds",
            "Seconds from a request's arrival to its first sampled token",
            buckets=_FIRST_TOKEN_S,
            registry=self._registry,
        )
        self.whole_s = Histogram(
            "radixway_engine_e2e_request_latency_seconds",
            "Seconds from a request's arrival to the end of its answer",
            buckets=_WHOLE_S,
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
        gauges = {
            "requests_running": ("Requests in the batch", stats.running),
            "requests_waiting": ("Requests in the queue", stats.waiting),
            "requests_loading": ("Requests whose prefix comes up from a lower tier", stats.loading),
            "requests_departing": ("Finished requests whose KV is still being sent", stats.departing),
            "kv_tokens": ("Tokens the KV pool holds at most", stats.kv_total),
            "kv_used_tokens": ("Tokens of KV held by running requests", stats.kv_used),
            "kv_cached_tokens": ("Tokens of KV kept for reuse and free to evict", stats.kv_cached),
            "kv_usage_ratio": ("Share of the KV pool held by running requests", kv_usage_ratio(stats)),
        }
        counters = {
            "requests": ("Requests submitted", stats.requests),
            "prompt_tokens": ("Prompt tokens received", stats.prompt_tokens),
            "cached_prompt_tokens": ("Prompt tokens found in the cache", stats.cached_tokens),
            "remote_prompt_tokens": (
                "Prompt tokens whose KV came from a prefill engine",
                stats.remote_tokens,
            ),
            "generation_tokens": ("Tokens sampled", stats.generated_tokens),
            "preemptions": ("Requests put back into the queue for want of KV", stats.preemptions),
            "evicted_tokens": ("Cached tokens dropped to make room", stats.evicted_tokens),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"radixway_engine_{name}", text, value=value)
        for name, (text, value) in counters.items():
            yield CounterMetricFamily(f"radixway_engine_{name}", text, value=value)
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


_TIER_METRICS: tuple[tuple[type[CounterMetricFamily | GaugeMetricFamily], str, str, str], ...] = (
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
"""Kind and name of each metric of a tier, the field of `TierStats` behind it, and its help."""


def _tier_metrics(tiers: Mapping[str, TierStats]) -> Iterator[Metric]:
    for family_type, name, field, text in _TIER_METRICS:
        family = family_type(f"radixway_engine_tier_{name}", text, labels=["tier"])
        for tier, stats in tiers.items():
            family.add_metric([tier], getattr(stats, field))
        yield family


def _transfer_metrics(transfers: TransferStats | None) -> Iterator[Metric]:
    """KV sent by a prefill engine, or received by a decode engine; no figures where it is neither."""
    ended = CounterMetricFamily(
        "radixway_engine_kv_transfers", "Transfers of KV between engines that have ended", labels=["outcome"]
    )
    crossed = CounterMetricFamily("radixway_engine_kv_transfer_bytes", "Bytes of KV that crossed", labels=[])
    under_way = GaugeMetricFamily(
        "radixway_engine_kv_transfers_under_way", "Transfers of KV under way", labels=[]
    )
    if transfers is not None:
        ended.add_metric(["whole"], transfers.whole)
        ended.add_metric(["failed"], transfers.failed)
        crossed.add_metric([], transfers.size_bytes)
        under_way.add_metric([], transfers.under_way)
    yield from (ended, crossed, under_way)


def kv_usage_ratio(stats: EngineStats) -> float:
    """The share of the KV pool that running requests hold, by `stats`."""
    return stats.kv_used / stats.kv_total if stats.kv_total else 0.0
