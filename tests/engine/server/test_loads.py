"""/v1/loads as SGLang's clients read it."""

import asyncio

import pytest

import radixway
from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_what_runs_is_counted_until_it_is_aborted(served: Served) -> None:
    async def load() -> dict:
        response = await served.http.get("/v1/loads?include=core,disagg,queues")
        assert response.status_code == 200, response.text
        (only,) = response.json()["loads"]
        return only

    assert (await load())["num_running_reqs"] == 0
    served.engine.hold_after = 1
    asking = asyncio.create_task(served.chat(n=2))
    await served.engine.holding.wait()
    busy = await load()
    assert (busy["dp_rank"], busy["num_running_reqs"], busy["num_waiting_reqs"]) == (0, 2, 0)
    assert (busy["num_used_tokens"], busy["max_total_num_tokens"]) == (200, 1000)
    assert busy["token_usage"] == pytest.approx(0.2)
    assert busy["max_running_requests"] == served.engine.config.max_running
    assert busy["disaggregation"] == {
        "mode": "null",
        "prefill_inflight_queue_reqs": 0,
        "decode_transfer_queue_reqs": 0,
    }
    assert busy["queues"] == {"waiting": 0, "grammar": 0, "paused": 0, "retracted": 0}
    await served.post("/abort_request", {"abort_all": True})
    await asking
    assert (await load())["num_running_reqs"] == 0


@pytest.mark.parametrize(
    ("query", "sections"),
    [
        ("", {"disaggregation", "queues"}),
        ("?include=all", {"disaggregation", "queues"}),
        ("?include=core", set()),
        ("?include=core,%20queues", {"queues"}),
        ("?include=memory,spec,lora&format=json&dp_rank=0", set()),
    ],
)
async def test_sections_are_those_that_are_asked_for(served: Served, query: str, sections: set[str]) -> None:
    told = (await served.http.get(f"/v1/loads{query}")).json()
    assert (told["version"], told["dp_rank_count"]) == (radixway.__version__, 1)
    (load,) = told["loads"]
    assert load.keys() & {"disaggregation", "queues", "memory", "speculative", "lora"} == sections
    assert {"num_running_reqs", "num_waiting_reqs", "num_used_tokens"} <= load.keys()


async def test_there_is_no_other_rank(served: Served) -> None:
    assert (await served.http.get("/v1/loads?dp_rank=1")).json()["loads"] == []


@pytest.mark.parametrize("query", ["include=everything", "format=prometheus", "dp_rank=x"])
async def test_what_cannot_be_asked_names_its_field(served: Served, query: str) -> None:
    response = await served.http.get(f"/v1/loads?{query}")
    assert response.status_code == 400
    assert response.json()["error"]["param"] == query.partition("=")[0]
