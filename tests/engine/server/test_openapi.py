"""The engine's `/openapi.json`: every path that it routes, and what their bodies take."""

import pytest

from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_every_path_is_told_with_what_it_is_for(served: Served) -> None:
    told = (await served.http.get("/openapi.json")).json()
    assert told["openapi"].startswith("3.1") and "/v1/models/{model}" in told["paths"]
    calls = [call for methods in told["paths"].values() for call in methods.values()]
    assert all(call["description"] for call in calls)
    assert len({call["operationId"] for call in calls}) == len(calls)
    for path, methods in told["paths"].items():
        for method in methods:
            asked = await served.http.request("OPTIONS", path.replace("{model}", "m"))
            assert asked.status_code == 405 and method.upper() in asked.headers["allow"], path


async def test_bodies_are_those_that_are_read(served: Served) -> None:
    told = (await served.http.get("/openapi.json")).json()
    shapes = told["components"]["schemas"]
    content = told["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]
    chat = shapes[content["application/json"]["schema"]["$ref"].rsplit("/", 1)[-1]]["properties"]
    assert {"messages", "tools", "response_format", "temperature"} <= set(chat)
    tensors = told["paths"]["/update_weights_from_tensor"]["post"]["requestBody"]["content"]
    assert set(tensors) == {"application/json", "application/octet-stream"}


async def test_a_full_queue_is_documented_where_calls_queue(served: Served) -> None:
    paths = (await served.http.get("/openapi.json")).json()["paths"]
    assert {"429", "503"} <= set(paths["/prefetch"]["post"]["responses"])
    assert "429" not in paths["/tokenize"]["post"]["responses"]
