"""`/openapi.json` tells of all that a gateway answers, served raw or not."""

from __future__ import annotations

from radixway.hot_paths import HOT_PATHS
from running_gateway import running_gateway


async def test_what_is_served_raw_is_in_openapi_with_the_fields_that_are_read() -> None:
    async with running_gateway() as gateway:
        _, told = await gateway.get("/openapi.json")
        _, again = await gateway.get("/openapi.json")
    assert again == told
    paths, shapes = told["paths"], told["components"]["schemas"]
    assert set(HOT_PATHS) <= set(paths) and "/list_workers" in paths
    for path in HOT_PATHS:
        schema = paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        fields = shapes[schema["$ref"].rsplit("/", 1)[-1]]["properties"]
        assert {"model", "stream", "priority", "ttft_slo_ms"} <= set(fields)
    assert shapes["ChatBody"]["required"] == ["messages"]
    agents = [path for path in paths if path.startswith("/sessions/{session_id}/v1/")]
    assert {path.rsplit("/v1/", 1)[-1] for path in agents} >= {"chat/completions", "responses", "messages"}
    assert all(
        paths[path]["post"]["parameters"][0]["name"] == "session_id" for path in agents if "count" not in path
    )
