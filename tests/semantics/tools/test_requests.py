"""A gateway that selects tools, before a worker on a real socket: what reaches it."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from radixway.core.config import ConfigError
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

pytest.importorskip("re2")

DATABASE = Path(__file__).parents[2] / "data" / "tools" / "tools_db.json"
RAIN = [{"role": "user", "content": "Will it rain in Oslo tomorrow?"}]
SECTION = {
    "default_model": "prover",
    "model_config": {"prover": {"reasoning_family": "deepseek"}},
    "keyword_rules": [{"category": "math", "keywords": ["theorem"]}],
    "fusion": {"certain_at": 0.6},
    "categories": [
        {
            "name": "math",
            "system_prompt": "You prove.",
            "model_scores": [{"model": "prover", "score": 1, "use_reasoning": True}],
        }
    ],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Where the encoder is prepared, once for all tests here."""
    return tmp_path_factory.mktemp("encoders")


@pytest.fixture
def selecting(home):
    @asynccontextmanager
    async def selecting(encoders=None, **tools):
        section = SECTION | {"tools": {"enabled": True, "top_k": 2, **tools}}
        reads = {"home": str(home)} | (encoders or {})
        async with scripted_worker(models=["m", "prover"]) as worker:
            async with running_gateway(worker.url, semantic=section, encoders=reads) as running:
                yield running, worker

    return selecting


def named(name, description="", **more):
    return {"type": "function", "function": {"name": name, "description": description, **more}}


def names(body):
    return [tool["function"]["name"] for tool in body["tools"]]


MANY = [
    named("get_weather", "Current weather and forecast for any place"),
    named("send_email", "Send an email message to somebody"),
    named("stock_price", "Quotes of shares at the exchange"),
    named("book_table", "Reserve a table at a restaurant"),
    named("rain_radar", "Where it rains now, as a map"),
]
CLIENT = {"client_tools": {"enabled": True, "at_least": 5, "wait_s": 60}}


async def entry_of(running, headers):
    _, told = await running.get(f"/explain/{headers['x-request-id']}")
    return next(step for step in told["steps"] if step["step"] == "tools"), json.dumps(told)


async def test_a_request_without_tools_is_given_the_best_of_the_database(selecting):
    async with selecting(tools_db_path=str(DATABASE)) as (running, worker):
        status, _, headers = await running.chat(messages=RAIN, tool_choice="auto")
        sent = worker.requests[-1].json()
        entry, told = await entry_of(running, headers)
    assert status == 200 and sent["tool_choice"] == "auto"
    assert sent["tools"][0] == json.loads(DATABASE.read_text())[0]["tool"]
    assert entry["source"] == "database" and entry["outcome"] == "selected" and entry["of"] == 5
    assert entry["offered"] == names(sent) and entry["scores"][0]["name"] == "get_weather"
    assert entry["tokens_saved"] == entry["tokens_before"] - entry["tokens_after"] > 0
    assert "Oslo" not in told


async def test_nothing_else_is_lost_beside_system_prompt_thinking_and_headers(selecting):
    raw = (
        b'{"model": "auto", "top_k": 1e0, "odd": {"a":  [1.10]}, "tool_choice": "auto", "tools": [],'
        b' "chat_template_kwargs": {"custom": 7}, "stream": false,'
        b' "messages": [{"role": "user", "content": "Calculate the theorem",  "name": "\\u4eba"}]}'
    )
    async with selecting(tools_db_path=str(DATABASE)) as (running, worker):
        status, _, headers = await running.post("/v1/chat/completions", raw, headers={"x-mine": "1"})
        request = worker.requests[-1]
    body = request.json()
    assert status == 200 and body["model"] == "prover"
    assert body["messages"][0] == {"role": "system", "content": "You prove."}
    assert body["chat_template_kwargs"] == {"custom": 7, "thinking": True}
    assert b'{"a":  [1.10]}' in request.body and b'"top_k":1e0' in request.body
    assert b'"name": "\\u4eba"}' in request.body
    assert body["stream"] is False and 1 <= len(body["tools"]) <= 2
    assert request.headers["x-selected-model"] == request.headers["x-vsr-model"] == "prover"
    assert request.headers["x-vsr-reasoning"] == "true" and request.headers["x-mine"] == "1"
    assert headers["x-vsr-selected-model"] == "prover"


async def test_other_requests_keep_what_they_say_of_tools(selecting):
    others = [
        {},
        {"tool_choice": "none"},
        {"tool_choice": "required", "tools": MANY},
        {"tool_choice": {"type": "function", "function": {"name": "send_email"}}, "tools": MANY},
        {"tool_choice": "auto", "tools": MANY[:4]},
        {"tools": "nonsense"},
        {"tool_choice": "auto", "tools": [1, 2, 3, 4, 5]},
    ]
    async with selecting(tools_db_path=str(DATABASE), **CLIENT) as (running, worker):
        for fields in others:
            status, _, _ = await running.chat(messages=RAIN, **fields)
            sent = worker.requests[-1].json()
            assert status == 200 and sent == {"model": "m", "messages": RAIN, **fields}


async def test_a_long_list_of_the_clients_keeps_what_is_wanted_in_its_own_order_and_spelling(selecting):
    odd = b'{"type": "function", "function": {"name": "rain_radar",  "description": "Where it rains now"}}'
    rest = ", ".join(json.dumps(tool) for tool in MANY[1:4]).encode()
    last = (
        b'{"type": "function", "function": {"name": "get_weather", "description": "The weather", "x": 1e0}}'
    )
    custom = b'{"type": "custom", "custom": {"name": "shell"}}'
    tools = b", ".join([odd, rest, custom, last])
    raw = b'{"model": "m", "messages": %s, "tools": [%s]}' % (json.dumps(RAIN).encode(), tools)
    async with selecting(**CLIENT) as (running, worker):
        status, _, headers = await running.post("/v1/chat/completions", raw)
        sent = worker.requests[-1].body
        entry, _ = await entry_of(running, headers)
    assert status == 200 and b'"tools":[' + b",".join([odd, custom, last]) + b"]" in sent
    assert entry["offered"] == ["rain_radar", "get_weather"] and entry["of"] == 6
    assert entry["tokens_after"] == len(odd + custom + last) // 4


async def test_tools_that_the_conversation_has_called_stay(selecting):
    messages = [
        {"role": "user", "content": "What is Apple worth?"},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "stock_price", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "211 USD"},
        *RAIN,
    ]
    async with selecting(**CLIENT) as (running, worker):
        await running.chat(messages=messages, tools=MANY, tool_choice="auto")
        assert names(worker.requests[-1].json()) == ["get_weather", "stock_price", "rain_radar"]


async def test_every_step_of_an_agents_loop_is_offered_the_same_tools(selecting):
    call = {"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    steps = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "Send an email message about shares and tables"},
    ]
    async with selecting(tools_db_path=str(DATABASE)) as (running, worker):
        await running.chat(messages=RAIN, tool_choice="auto")
        await running.chat(messages=RAIN + steps, tool_choice="auto")
        first, second = (request.json() for request in worker.requests)
    assert second["tools"] == first["tools"]


async def test_where_nothing_is_good_enough_nothing_is_offered_that_a_worker_would_refuse(selecting):
    fields = {"tool_choice": "auto", "parallel_tool_calls": True}
    async with selecting(tools_db_path=str(DATABASE), least_score=0.99, **CLIENT) as (running, worker):
        _, _, headers = await running.chat(messages=RAIN, **fields)
        assert worker.requests[-1].json() == {"model": "m", "messages": RAIN}
        assert (await entry_of(running, headers))[0]["outcome"] == "none_good_enough"
        await running.chat(messages=RAIN, tools=MANY, **fields)
        assert worker.requests[-1].json() == {"model": "m", "messages": RAIN}


async def test_without_the_fallback_a_request_goes_on_as_it_came(selecting):
    tools = {"least_score": 0.99, "fallback_to_empty": False, **CLIENT}
    async with selecting(tools_db_path=str(DATABASE), **tools) as (running, worker):
        for fields in ({"tool_choice": "auto"}, {"tools": MANY, "tool_choice": "auto"}):
            await running.chat(messages=RAIN, **fields)
            assert worker.requests[-1].json() == {"model": "m", "messages": RAIN, **fields}


async def test_a_list_that_takes_long_to_read_is_kept_whole_until_it_is_read(selecting):
    tools = {"client_tools": {"enabled": True, "at_least": 5, "wait_s": 0}}
    async with selecting(**tools) as (running, worker):
        _, _, headers = await running.chat(messages=RAIN, tools=MANY, tool_choice="auto")
        assert names(worker.requests[-1].json()) == [tool["function"]["name"] for tool in MANY]
        assert (await entry_of(running, headers))[0]["outcome"] == "unread"
        async with asyncio.timeout(60):
            while len(worker.requests[-1].json()["tools"]) == len(MANY):
                await running.chat(messages=RAIN, tools=MANY, tool_choice="auto")
        assert names(worker.requests[-1].json()) == ["get_weather", "rain_radar"]


async def test_an_encoder_that_fails_changes_nothing(selecting, tmp_path):
    async with selecting(encoders={"model": str(tmp_path / "none")}, **CLIENT) as (running, worker):
        fields = {"tools": MANY, "tool_choice": "auto"}
        status, _, headers = await running.chat(messages=RAIN, **fields)
        sent = worker.requests[-1].json()
        entry, _ = await entry_of(running, headers)
    assert status == 200 and sent == {"model": "m", "messages": RAIN, **fields}
    assert entry["outcome"] == "failed"


async def test_a_bad_edit_of_the_database_keeps_the_last_good_one(selecting, tmp_path):
    file = tmp_path / "tools_db.json"
    file.write_text(json.dumps([{"tool": named("get_weather", "The weather anywhere")}]))
    async with selecting(tools_db_path=str(file)) as (running, worker):
        file.write_text('[\n{"tool": {"function": {}}}]')
        status, said, _ = await running.post("/config/semantic/reload", {})
        assert status == 409 and "tools_db.json:2: 0.tool.function: Object missing" in said["message"]
        await running.chat(messages=RAIN, tool_choice="auto")
        assert names(worker.requests[-1].json()) == ["get_weather"]


async def test_a_changed_database_takes_effect_by_itself(selecting, tmp_path):
    file = tmp_path / "tools_db.json"
    file.write_text(json.dumps([{"tool": named("get_weather", "The weather anywhere")}]))
    async with selecting(tools_db_path=str(file), least_score=0) as (running, worker):
        assert (await running.get("/config/semantic"))[1]["tools"] == 1
        more = [{"tool": named("rain_radar", "Where it rains")}, {"tool": named("pay", "Pay a bill")}]
        async with asyncio.timeout(30):
            while (await running.get("/config/semantic"))[1]["tools"] == 1:
                file.write_text(json.dumps(more))
        await running.chat(messages=RAIN, tool_choice="auto")
        assert names(worker.requests[-1].json())[0] == "rain_radar"


async def test_a_database_that_a_watched_configuration_names_is_watched_too(home, tmp_path):
    database, other = tmp_path / "a" / "tools.json", tmp_path / "b" / "tools.json"
    for number, file in enumerate((database, other), start=1):
        file.parent.mkdir()
        tools = [{"tool": named(f"tool_{index}", "Does it")} for index in range(number)]
        file.write_text(json.dumps(tools))
    config = tmp_path / "router.yaml"

    async def until(running, count, file, text):
        async with asyncio.timeout(30):
            while (await running.get("/config/semantic"))[1]["tools"] != count:
                file.write_text(text)

    def naming(file):
        return f"default_model: m\ntools: {{enabled: true, tools_db_path: {file}}}\n"

    config.write_text(naming(database))
    async with running_gateway(semantic={"config": str(config)}, encoders={"home": str(home)}) as running:
        three = [{"tool": named(name, "Does it")} for name in ("x", "y", "z")]
        await until(running, 3, database, json.dumps(three))
        await until(running, 2, config, naming(other))
        await until(running, 4, other, json.dumps([*three, {"tool": named("w", "Does it")}]))


async def test_a_database_that_cannot_be_used_is_told_at_the_start(selecting, tmp_path):
    file = tmp_path / "tools_db.json"
    file.write_text("{}")
    with pytest.raises(ConfigError, match=r"tools_db\.json:1: the file must be a list of tools"):
        async with selecting(tools_db_path=str(file)):
            pass


async def test_a_database_that_is_not_there_is_as_none(selecting, tmp_path, caplog):
    async with selecting(tools_db_path=str(tmp_path / "none.json")) as (running, worker):
        status, _, _ = await running.chat(messages=RAIN, tool_choice="auto")
        assert status == 200 and "tools" not in worker.requests[-1].json()
    assert any("no tools are selected from it" in record.message for record in caplog.records)
