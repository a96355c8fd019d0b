"""`/openapi.json` tells of all that a gateway answers, served raw or not."""

from __future__ import annotations

from radixway.core.pipeline import ENDPOINTS
from radixway.core.pipeline.endpoints import SURFACE_ENDPOINTS
from support.running_gateway import running_gateway


async def test_what_is_served_raw_is_in_openapi_with_the_fields_that_are_read() -> None:
    async with running_gateway() as gateway:
        _, told = await gateway.get("/openapi.json")
        _, again = await gateway.get("/openapi.json")
    assert again == told
    paths, shapes = told["paths"], told["components"]["schemas"]
    served = ENDPOINTS.served_directly()
    assert set(served) <= set(paths) and "/list_workers" in paths
    for path, endpoint in served.items():
        schema = paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        fields = shapes[schema["$ref"].rsplit("/", 1)[-1]]["properties"]
        assert {"model", "priority", "ttft_slo_ms", *endpoint.text_fields} - {"tools"} <= set(fields)
        kinds = paths[path]["post"]["responses"]["200"]["content"]
        assert ("stream" in fields) == endpoint.streams == ("text/event-stream" in kinds)
    assert shapes["ChatBody"]["required"] == ["messages"]
    agents = [path for path in paths if path.startswith("/sessions/{session_id}/v1/")]
    assert {path.rsplit("/v1/", 1)[-1] for path in agents} >= {"chat/completions", "responses", "messages"}
    assert all(
        paths[path]["post"]["parameters"][0]["name"] == "session_id" for path in agents if "count" not in path
    )


async def test_forms_messages_and_files_are_in_openapi_too() -> None:
    async with running_gateway() as gateway:
        paths = (await gateway.get("/openapi.json"))[1]["paths"]
    for endpoint in SURFACE_ENDPOINTS:
        kind = "multipart/form-data" if endpoint.takes_forms else "application/json"
        assert list(paths[endpoint.path]["post"]["requestBody"]["content"]) == [kind]
    assert {"get", "post"} <= set(paths["/v1/files"])
