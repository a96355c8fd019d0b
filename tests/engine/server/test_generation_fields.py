"""Where engines meet, as bodies say it: SGLang's `bootstrap_*` fields."""

from typing import Any

import msgspec
import pytest

from radixway.core.http import BadBodyError
from radixway.engine.engine_request import BootstrapRoom
from radixway.engine.server.generate import GenerateRequestBody
from radixway.engine.server.generation_fields import parse_rooms
from support.server_served import Served

MEETING = {"bootstrap_host": "[::1]", "bootstrap_port": 9000, "bootstrap_room": 5}


def body(**fields: Any) -> GenerateRequestBody:
    return msgspec.convert({"text": "hi", **fields}, GenerateRequestBody)


def test_a_body_that_names_no_room_meets_nobody() -> None:
    assert parse_rooms(body(bootstrap_host="h", bootstrap_port=1), 2) == [None, None]


def test_one_room_counts_up_for_several_answers() -> None:
    assert parse_rooms(body(**MEETING), 2) == [BootstrapRoom("::1", 9000, 5), BootstrapRoom("::1", 9000, 6)]


def test_a_batch_has_a_room_for_each_prompt() -> None:
    lists = {"bootstrap_host": ["a", "b"], "bootstrap_port": [1, None], "bootstrap_room": [7, 3]}
    assert parse_rooms(body(**lists), 2) == [BootstrapRoom("a", 1, 7), BootstrapRoom("b", 8998, 3)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bootstrap_room", -1),
        ("bootstrap_room", 2**63),
        ("bootstrap_room", [1, 2]),
        ("bootstrap_port", 0),
        ("bootstrap_port", 65536),
        ("bootstrap_port", [1, 2]),
        ("bootstrap_host", ""),
        ("bootstrap_host", "h" * 256),
        ("bootstrap_host", None),
        ("bootstrap_host", []),
    ],
)
def test_what_is_wrong_is_named(field: str, value: Any) -> None:
    with pytest.raises(BadBodyError) as refusal:
        parse_rooms(body(**MEETING | {field: value}), 1)
    assert refusal.value.status == 400 and refusal.value.param == field


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("path", ["/generate", "/v1/completions", "/v1/chat/completions"])
async def test_an_engine_that_does_both_answers_as_if_no_room_were_named(served: Served, path: str) -> None:
    prompts = {"text": "hi", "prompt": "hi", "messages": [{"role": "user", "content": "hi"}]}
    (name,) = prompts.keys() & {"/generate": ["text"], "/v1/completions": ["prompt"]}.get(path, ["messages"])
    response = await served.post(path, {name: prompts[name], **MEETING, "bootstrap_port": 1})
    assert response.status_code == 200
    response = await served.post(path, {name: prompts[name], "bootstrap_room": "five"})
    assert response.status_code == 400 and "bootstrap_room" in response.text
