"""Answers that use plugins, over HTTP: the gateway, a worker that says what it is to, and real tools."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.chat_user import ChatUser, login, words
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

Said = str | list[tuple[str, str]]
"""Words, or calls of functions: their names and arguments."""


class Model:
    """A worker whose model says one thing after the other."""

    def __init__(self, *said: Said) -> None:
        self.said = list(said)
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, exchange: Exchange) -> None:
        self.asked.append(exchange.json())
        said = self.said.pop(0) if self.said else None
        if said is None:  # its worker dies
            exchange.die()
            return
        await exchange.begin_stream()
        for delta in _spelled(said) if isinstance(said, str) else _called(said):
            await _chunk(exchange, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        reason = "stop" if isinstance(said, str) else "tool_calls"
        await _chunk(exchange, {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        await _chunk(exchange, {"choices": [], "usage": usage})
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()


def _spelled(text: str) -> list[dict[str, Any]]:
    return [{"content": text[at : at + 3]} for at in range(0, len(text), 3)]


def _called(calls: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """As vLLM streams them: the name first, then the arguments in pieces."""
    deltas: list[dict[str, Any]] = [{"content": "\n\n"}]
    for index, (name, arguments) in enumerate(calls):
        begin = {"index": index, "id": f"id-{index}", "type": "function", "function": {"name": name}}
        deltas.append({"tool_calls": [begin]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": arguments[at : at + 5]}}]}
            for at in range(0, len(arguments), 5)
        ]
    return deltas


async def _chunk(exchange: Exchange, event: dict[str, Any]) -> None:
    await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))


@asynccontextmanager
async def chatting(model: Model, **chat: Any) -> AsyncIterator[ChatUser]:
    async with (
        scripted_worker(model) as worker,
        running_gateway(worker.url, chat={"allow_debug_auth": True, **chat}) as gateway,
    ):
        yield await login(gateway, "eve")


async def answered(eve: ChatUser, *plugins: str, **entry: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What is heard of an answer with plugins, by name or URL, and the message in the end."""
    urls = [each if ":" in each else f"{eve.gateway.url}/plugins/{each}/ai-plugin.json" for each in plugins]
    answer = await eve.asked("What is 6 * 7?", plugins=[{"url": url, **entry} for url in urls])
    return await eve.heard(answer), await eve.now(answer)


def steps(heard: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Which tools were called, and what they said."""
    return [
        (event["current_plugin_action_taken"], event["current_plugin_action_response"])
        for event in heard
        if event["event_type"] == "plugin_intermediate"
    ]


CALL = """Thought: I should calculate
Action: calculate
Action Input: {"request": {"params": {"expression": "6 * 7"}}}"""
ANSWER = "Thought: I now know the final answer\nOpen Assistant: It is 42.End!"
FUNCTIONS = {"plugins": {"function_calling": ["m*"]}}


async def test_a_model_without_functions_thinks_acts_and_observes_in_text() -> None:
    model = Model(CALL, ANSWER)
    async with chatting(model) as eve:
        heard, message = await answered(eve, "calculator")
    assert [event["event_type"] for event in heard if event["event_type"] != "token"] == [
        "plugin_intermediate",
        "message",
    ]
    assert heard[0] == {
        "event_type": "plugin_intermediate",
        "current_plugin_thought": "I should calculate",
        "current_plugin_action_taken": "calculate",
        "current_plugin_action_input": '{"request": {"params": {"expression": "6 * 7"}}}',
        "current_plugin_action_response": "42",
        "message": None,
    }
    assert all(event["text"] for event in heard if event["event_type"] == "token")
    assert words(heard) == message["content"] == "It is 42."
    first, second = model.asked
    assert "'calculate'" in first["messages"][0]["content"] and first["stop"] == ["\nObservation:"]
    assert second["messages"][-2:] == [
        {"role": "assistant", "content": CALL},
        {"role": "user", "content": "Observation: 42"},
    ]


async def test_what_was_done_is_kept_with_the_message_in_the_published_shape() -> None:
    async with chatting(Model(CALL, ANSWER)) as eve:
        heard, message = await answered(eve, "calculator")
        _, read = await eve.call("GET", f"/v1/chats/{message['chat_id']}/messages/{message['id']}")
    used = message["used_plugin"]
    assert read["used_plugin"] == used
    assert heard[-1]["message"]["used_plugin"] == used and read["usage"]["total_tokens"] == 14
    details = used.pop("execution_details")
    assert used.keys() == {"name", "url", "trusted"} and used["trusted"] is True
    assert [line[:4].strip() for line in details.pop("inner_monologue")] == ["In:", "Out:", "In:", "Out:"]
    assert details.pop("final_prompt") == "Observation: 42"
    assert details == {
        "final_tool_output": "42",
        "final_generation_assisted": False,
        "achieved_depth": 1,
        "error_message": "",
        "status": "success",
    }


async def test_a_model_with_functions_is_offered_them_and_calls_several_at_once() -> None:
    calls = [("calculate", '{"expression": "6 * 7"}'), ("calculate", '{"expression": "1 / 0"}')]
    model = Model(calls, "It is 42.")
    async with chatting(model, **FUNCTIONS) as eve:
        heard, message = await answered(eve, "calculator")
    assert steps(heard) == [("calculate", "42"), ("calculate", "Error: division by zero")]
    assert words(heard) == message["content"] == "It is 42."
    first, second = model.asked
    assert first["tools"][0]["function"]["parameters"]["required"] == ["expression"]
    assert [each["role"] for each in second["messages"][-3:]] == ["assistant", "tool", "tool"]
    assert second["messages"][-2]["tool_call_id"] == second["messages"][-3]["tool_calls"][0]["id"] == "id-0"


async def test_of_very_many_calls_at_once_some_are_made() -> None:
    async with chatting(Model([("calculate", '{"expression": "6 * 7"}')] * 50, "42."), **FUNCTIONS) as eve:
        heard, _ = await answered(eve, "calculator")
    results = [result for _, result in steps(heard)]
    assert results[:8] == ["42"] * 8 and len(results) == 50
    assert all("at most 8 calls at once" in result for result in results[8:])


@pytest.mark.parametrize("functions", [False, True])
async def test_after_four_rounds_the_model_has_to_answer(functions: bool) -> None:
    call: Said = [("calculate", '{"expression": "6 * 7"}')] if functions else CALL
    model = Model(call, call, call, call, "Enough: 42.")
    async with chatting(model, **(FUNCTIONS if functions else {})) as eve:
        heard, message = await answered(eve, "calculator")
    assert len(steps(heard)) == 4 and message["content"] == "Enough: 42."
    details = message["used_plugin"]["execution_details"]
    assert details["achieved_depth"] == 4 and details["final_generation_assisted"] is True
    assert model.asked[-1].get("tool_choice") == ("none" if functions else None)
    roles = [each["role"] for each in model.asked[-1]["messages"]]
    assert functions or all(one != other for one, other in itertools.pairwise(roles)), roles


@pytest.mark.parametrize("functions", [False, True])
async def test_a_model_that_needs_no_plugin_answers_as_ever(functions: bool) -> None:
    async with chatting(Model("It is 42."), **(FUNCTIONS if functions else {})) as eve:
        heard, message = await answered(eve, "calculator")
    assert words(heard) == message["content"] == "It is 42."
    assert message["used_plugin"] is None and not steps(heard)


async def test_only_the_first_enabled_plugin_is_used() -> None:
    model = Model(ANSWER)
    async with chatting(model) as eve:
        answer = await eve.asked(
            plugins=[
                {"url": f"{eve.gateway.url}/plugins/{name}/ai-plugin.json", "enabled": enabled}
                for name, enabled in (("gale_pleaser", False), ("calculator", True), ("gale_roaster", True))
            ]
        )
        await eve.heard(answer)
    told = model.asked[0]["messages"][0]["content"]
    assert "> calculate:" in told and "roastUser" not in told and "get_instructions" not in told


async def test_what_cannot_be_used_costs_no_answer() -> None:
    """A private address, an MCP server that is not there, a name that resolves to nothing."""
    for url in ("http://10.0.0.1/ai-plugin.json", "mcp:nothing", "https://nowhere.invalid/ai-plugin.json"):
        async with chatting(Model("It is 42.")) as eve:
            heard, message = await answered(eve, url)
        assert words(heard) == "It is 42." and message["state"] == "complete", url
        details = message["used_plugin"]["execution_details"]
        assert details["status"] == "failure" and details["error_message"], url
        assert message["used_plugin"]["trusted"] is False


async def test_tools_of_an_mcp_server_are_called_as_those_of_any_plugin() -> None:
    server = {"command": sys.executable, "args": [str(Path(__file__).parents[2] / "support" / "mcp_shop.py")]}
    model = Model([("price", '{"item": "figs"}')], "3 euros.")
    async with chatting(model, mcp_servers={"shop": server}, **FUNCTIONS) as eve:
        heard, message = await answered(eve, "mcp:shop")
        assert steps(heard) == [("price", "1 figs: 3 euros")] and message["content"] == "3 euros."
        assert message["used_plugin"]["name"] == "shop" and message["used_plugin"]["trusted"] is True
        assert model.asked[0]["messages"][0]["content"] == "A shop that sells pears."


async def shop(exchange: Exchange) -> None:
    """A plugin of others whose tools fail in every way there is."""
    if exchange.path == "/ai-plugin.json":
        api = {"type": "openapi", "url": "openapi.yaml"}
        names = {"name_for_model": "Shop", "name_for_human": "The shop", "description_for_model": "Sells."}
        await exchange.reply(200, json.dumps({**names, "api": api, "auth": {"type": "none"}}).encode())
    elif exchange.path == "/openapi.yaml":
        paths = "".join(
            f"  /{name}:\n    get: {{operationId: {name}}}\n" for name in ("huge", "hang", "dies", "says500")
        )
        await exchange.reply(200, f"openapi: 3.0.2\npaths:\n{paths}  /buy:\n{BUY}".encode(), "text/yaml")
    elif exchange.path == "/huge":
        await exchange.reply(200, b"x" * 10_000_000, "text/plain")
    elif exchange.path == "/hang":
        await exchange.until_peer_leaves()
    elif exchange.path == "/says500":
        await exchange.reply(500, b"out of order", "text/plain")
    elif exchange.path.startswith("/buy"):
        await exchange.reply(200, json.dumps({"path": exchange.path, "body": exchange.json()}).encode())
    else:
        exchange.die()


BUY = """
    post:
      operationId: buy
      parameters: [{name: coupon, in: query, required: true, schema: {type: string}}]
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: '#/components/schemas/Order'}}}
components:
  schemas:
    Order: {type: object, properties: {what: {type: string, description: its name}}, required: [what]}
"""
HERE = {"allowed_networks": ["127.0.0.1"], "fetch_timeout_s": 10}


async def test_a_plugin_of_others_is_called_as_its_documents_say() -> None:
    call = [("buy", '{"coupon": "a&b", "payload": {"what": "pears"}}')]
    model = Model(call, "Bought.")
    async with (
        scripted_worker(shop) as web,
        chatting(model, plugins={"function_calling": ["m"], **HERE}) as eve,
    ):
        heard, message = await answered(eve, f"{web.url}/ai-plugin.json")
    assert json.loads(steps(heard)[0][1]) == {"path": "/buy?coupon=a%26b", "body": {"what": "pears"}}
    buy = next(each["function"] for each in model.asked[0]["tools"] if each["function"]["name"] == "buy")
    assert buy["parameters"]["required"] == ["coupon", "payload"]
    assert buy["parameters"]["properties"]["payload"]["properties"]["what"]["description"] == "its name"
    assert message["used_plugin"]["trusted"] is False and message["used_plugin"]["name"] == "The shop"


async def test_tools_that_fail_are_observations_and_not_the_end_of_the_answer() -> None:
    calls = [(name, "{}") for name in ("huge", "hang", "dies", "says500", "unknown")] + [("buy", "{}")]
    async with (
        scripted_worker(shop) as web,
        chatting(
            Model(calls, "None of it works."),
            plugins={"function_calling": ["m"], "tool_timeout_s": 2, **HERE},
        ) as eve,
    ):
        heard, message = await answered(eve, f"{web.url}/ai-plugin.json")
    told = dict(steps(heard))
    assert told["huge"].startswith("xxx") and len(told["huge"]) < 2200
    assert "did not answer within 2 seconds" in told["hang"]
    assert "does not answer" in told["dies"] and "status 500: out of order" in told["says500"]
    assert "there is no tool unknown; there are: huge" in told["unknown"]
    assert told["buy"] == "Error: missing: coupon, payload"
    assert message["state"] == "complete" and message["content"] == "None of it works."


async def test_a_worker_that_dies_after_a_call_has_it_made_once() -> None:
    call = [("buy", '{"coupon": "x", "payload": {"what": "pears"}}')]
    plugins = {"function_calling": ["m"], **HERE}
    async with scripted_worker(shop) as web, chatting(Model(call), plugins=plugins) as eve:
        heard, message = await answered(eve, f"{web.url}/ai-plugin.json")
    assert [event["event_type"] for event in heard] == ["plugin_intermediate", "error"]
    assert message["state"] == "aborted_by_worker"
    assert sum(each.path.startswith("/buy") for each in web.requests) == 1


async def test_an_answer_that_is_stopped_ends_its_tool_at_once() -> None:
    async with (
        scripted_worker(shop) as web,
        chatting(Model([("hang", "{}")]), plugins={"function_calling": ["m"], **HERE}) as eve,
    ):
        answer = await eve.asked(plugins=[{"url": f"{web.url}/ai-plugin.json"}])
        async with asyncio.timeout(10):
            while not any(each.path == "/hang" for each in web.requests):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            web.hung_up.clear()
            path = f"/v1/chats/{answer['chat_id']}/messages/{answer['id']}/stop"
            assert (await eve.call("POST", path))[0] == 200
            await web.hung_up.wait()
        assert (await eve.now(answer))["state"] == "cancelled"
