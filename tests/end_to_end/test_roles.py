"""An engine of ours that was not started to prefill for others is not taken for one that was."""

import pytest

from support.running_gateway import running_gateway


@pytest.mark.slow
async def test_an_engine_of_ours_answers_though_it_was_given_only_the_prefills(engines, caplog):
    url = engines[0]
    section = {"url": url, "role": "prefill", "disaggregation": "vllm"}
    async with running_gateway(url, workers=[section]) as running:
        body = {"input_ids": [300, 301, 302], "sampling_params": {"max_new_tokens": 2}}
        status, _, headers = await running.post("/generate", body)
        assert status == 200 and url.endswith(headers["x-radixway-worker"])
        _, listing = await running.get("/list_workers")
        assert listing["workers"][0]["role"] == "any"
    assert "not started to prefill only: it prefills and decodes" in caplog.text
