"""What is read of engines' own metrics."""

from __future__ import annotations

import pytest

from radixway.routing import EngineMetrics
from radixway.routing.engine_metrics import CacheSize, parse_cache_size, parse_engine_metrics

VLLM = b"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 3.0
vllm:num_requests_running{engine="1",model_name="meta-llama/Llama-3.1-8B-Instruct"} 1.0
vllm:num_requests_waiting{engine="0",model_name="a}b {c\\"d"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.25
vllm:num_requests_running_total{engine="0"} 99.0
"""
OLDER_VLLM = b'vllm:gpu_cache_usage_perc{model_name="m"} 0.125\nvllm:num_requests_running 2.0\n'
SGLANG = b"""\
sglang:token_usage{model_name="m"} 0.28
sglang:num_running_reqs{model_name="m"} 161.0
sglang:num_queue_reqs{model_name="m"} 2826.0
"""
TGI = b"# TYPE tgi_queue_size gauge\ntgi_queue_size 4\ntgi_batch_current_size 8\n"
LLAMA = b"llamacpp:kv_cache_usage_ratio 0.75\nllamacpp:requests_processing 1\nllamacpp:requests_deferred 2\n"
OURS = b"""\
radixway_engine_requests_running 2.0
radixway_engine_requests_waiting 0.0
radixway_engine_kv_usage_ratio 0.0625
radixway_engine_tier_tokens{tier="device"} 4096.0
radixway_engine_tier_tokens{tier="disk"} 1e+06
radixway_engine_tier_cached_tokens{tier="device"} 1024.0
radixway_engine_gpu_utilisation_ratio{gpu="3"} 0.9
"""


@pytest.mark.parametrize(
    ("page", "report"),
    [
        (VLLM, EngineMetrics(kv_usage=0.375, running=4, waiting=7)),
        (OLDER_VLLM, EngineMetrics(kv_usage=0.125, running=2)),
        (SGLANG, EngineMetrics(kv_usage=0.28, running=161, waiting=2826)),
        (TGI, EngineMetrics(running=8, waiting=4)),
        (LLAMA, EngineMetrics(kv_usage=0.75, running=1, waiting=2)),
        (
            OURS,
            EngineMetrics(
                0.0625, 2, 0, {"device": 4096, "disk": 1e6}, {"device": 1024}, gpu_utilisation={"3": 0.9}
            ),
        ),
        (b"", EngineMetrics()),
        (b"<html>not found</html>", EngineMetrics()),
    ],
)
def test_every_engine_is_read_by_its_own_names(page: bytes, report: EngineMetrics) -> None:
    assert parse_engine_metrics(page) == report


@pytest.mark.parametrize(
    "line",
    [
        b"tgi_queue_size NaN",
        b"tgi_queue_size +Inf",
        b"tgi_queue_size 1e308\ntgi_queue_size 1e308",
        b"vllm:kv_cache_usage_perc 1e308\nvllm:kv_cache_usage_perc 1e308",
        b"tgi_queue_size -3",
        b"tgi_queue_size many",
        b"tgi_queue_size",
        b"xtgi_queue_size 3",
        b"tgi_queue_size_bytes 3",
        b'radixway_engine_tier_tokens{tier="a\\"} 1\n"} 3',
        b'radixway_engine_tier_tokens{tier="' + b"x" * 1000 + b'"} 3',
        b"\xff\xfe\x00",
    ],
)
def test_what_makes_no_sense_is_left_out(line: bytes) -> None:
    assert parse_engine_metrics(line + b"\ntgi_batch_current_size 8\n") == EngineMetrics(running=8)


def test_a_worker_cannot_make_series_without_end() -> None:
    lines = [b'radixway_engine_gpu_utilisation_ratio{gpu="%d"} 0.5' % number for number in range(100_000)]
    assert len(parse_engine_metrics(b"\n".join(lines)).gpu_utilisation) == 64


def cache_config(**labels: object) -> bytes:
    written = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return b"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{%b} 1.0\n" % written.encode()


VLLM_LABELS = {"block_size": 32, "cache_dtype": "auto", "num_gpu_blocks": 400, "mamba_block_size": None}


@pytest.mark.parametrize(
    ("page", "size"),
    [
        (cache_config(engine=0, **VLLM_LABELS), CacheSize(12_800, 32)),  # as vLLM before 0.24
        (cache_config(**VLLM_LABELS | {"kv_cache_size_tokens": 9000}), CacheSize(9000, 32)),
        (
            cache_config(**VLLM_LABELS | {"kv_cache_size_tokens": None, "hash_block_size": 8}),
            CacheSize(12_800, 32),
        ),
        (cache_config(**VLLM_LABELS | {"cache_hit_alignment_tokens": 544}), CacheSize(12_800, 544)),
        (
            cache_config(engine=0, **VLLM_LABELS) * 2 + cache_config(engine=1, **VLLM_LABELS),
            CacheSize(25_600, 32),
        ),
        (cache_config(block_size=16, num_gpu_blocks=None), CacheSize(None, 16)),
        (cache_config(block_size=None), CacheSize()),
        (VLLM, CacheSize()),
        (b"<html>not found</html>", CacheSize()),
    ],
)
def test_the_size_of_vllms_cache_is_read(page: bytes, size: CacheSize) -> None:
    assert parse_cache_size(page) == size
