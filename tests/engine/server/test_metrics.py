"""What Prometheus reads of the tiers of the cache."""

from prometheus_client.parser import text_string_to_metric_families

from radixway.engine.engine_info import EngineStats
from radixway.engine.server.metrics import ServerMetrics
from radixway.engine.tiers import TierStats

TIERS = {
    "device": TierStats(total=100, cached=60, hit_tokens=7, evicted_tokens=9),
    "disk": TierStats(total=5000, cached=800, hit_tokens=32, evicted_tokens=0, lost_tokens=16),
}
STATS = EngineStats(
    running=0,
    waiting=0,
    kv_total=100,
    kv_used=0,
    kv_cached=60,
    prompt_tokens=0,
    cached_tokens=39,
    generated_tokens=0,
    requests=0,
    preemptions=0,
    evicted_tokens=9,
    tiers=TIERS,
)


def test_every_tier_has_its_own_figures() -> None:
    text = ServerMetrics(lambda: STATS).render_metrics().decode()
    read = {
        (sample.name.removeprefix("radixway_engine_tier_"), sample.labels["tier"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "tier" in sample.labels
    }
    assert read == {
        (name, tier): value
        for tier, stats in TIERS.items()
        for name, value in {
            "tokens": stats.total,
            "cached_tokens": stats.cached,
            "hit_tokens_total": stats.hit_tokens,
            "evicted_tokens_total": stats.evicted_tokens,
            "lost_tokens_total": stats.lost_tokens,
        }.items()
    }
