"""The two worked examples of the published proposal, with real engines behind."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from support.engine_process import engine_process
from support.running_gateway import running_gateway

pytest.importorskip("re2")

OCTOBER = Path(__file__).parents[1] / "data" / "semantic" / "october_2025.yaml"


@pytest.fixture(scope="module")
def two_models(tmp_path_factory):
    """Engines with the bundled model, served under the names that the configuration chooses among."""
    with ExitStack() as stack:
        urls = []
        for name in ("deepseek-v31", "phi4"):
            config = tmp_path_factory.mktemp(name) / "radixway.yaml"
            config.write_text(f"engine: {{served_model_name: {name}}}\n")
            urls.append(stack.enter_context(engine_process("--config", str(config)))[0])
        yield urls


async def decided(running, text):
    body = {"model": "auto", "max_tokens": 4, "messages": [{"role": "user", "content": text}]}
    status, answer, headers = await running.post("/v1/chat/completions", body)
    assert status == 200, answer
    _, told = await running.get(f"/explain/{headers['x-request-id']}")
    entry = next(step for step in told["steps"] if step["step"] == "semantic")
    return answer, {name: value for name, value in headers.items() if name.startswith("x-vsr-")}, entry


async def test_the_published_examples_are_decided_as_published(two_models, caplog):
    section = {"config": str(OCTOBER), "vllm_endpoints": []}
    section |= {"model_config": {"deepseek-v31": {"reasoning_family": "deepseek"}}}
    async with running_gateway(*two_models, semantic=section) as running:
        answer, headers, entry = await decided(running, "证明费马大定理")
        assert answer["model"] == "deepseek-v31"
        assert headers == {
            "x-vsr-selected-category": "math",
            "x-vsr-selected-reasoning": "on",
            "x-vsr-selected-model": "deepseek-v31",
            "x-vsr-injected-system-prompt": "true",
        }
        assert entry["confidence"] == 0.8  # two keywords, as in the proposal's own example
        answer, headers, entry = await decided(running, "How should we price our new product line?")
        assert answer["model"] == headers["x-vsr-selected-model"] == "phi4"
        assert headers["x-vsr-selected-category"] == "business"
        assert headers["x-vsr-selected-reasoning"] == "off"
        assert entry["reason"] == "embedding"
    warned = [record.message for record in caplog.records if "is not on this machine" in record.message]
    assert len(warned) == len(set(warned)) == 6
