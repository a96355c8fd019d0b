"""What the selector is told of a prompt, from which source, and what it costs those who do not need it."""

import asyncio
import json
import threading

import pytest

from radixway.core.config import ConfigError, RoutingConfig, WorkerSettings
from radixway.core.pipeline import ENDPOINTS, Request
from radixway.core.telemetry import Journal
from radixway.core.tokenizer import Tokenizer
from radixway.routing import PromptReader, RoutingRequest, TokenizerRegistry, Worker
from radixway.routing.block_hash import hash_token_blocks, namespace_seed, pack_tokens
from radixway.routing.worker import ServerInfo
from support.scripted_engine import GUIDE

IDS = list(range(100, 164))
CHAT = {"messages": [{"role": "user", "content": "What is Radixway?"}]}
SURFACES = {"messages": "openai.chat", "prompt": "openai.completions"}


class Reads:
    reads_blocks = True
    reads_text = False
    reads_session = False


class ReadsText(Reads):
    reads_blocks = False
    reads_text = True


class ReadsNothing(Reads):
    reads_blocks = False


def request(body, model="m") -> Request:
    surface = next((name for field, name in SURFACES.items() if field in body), "generate")
    raw = json.dumps(body).encode()
    return Request(id="r", endpoint=ENDPOINTS[surface], path="/", journal=Journal("r"), raw=raw, model=model)


def worker(name="w", **told) -> Worker:
    made = Worker(WorkerSettings(url=f"http://{name}"))
    made.info = ServerInfo(models=("m",), **told)
    return made


class Reader:
    """A reader whose tokenizers are loaded, and why prompts were read as text."""

    def __init__(self, tokenizer=None, ask=None, **routing) -> None:
        given = {"m": str(tokenizer)} if tokenizer else {}
        config = RoutingConfig(tokenizers=given, text_block_bytes=128, **routing)
        self.tokenizers = TokenizerRegistry(config)
        self.tokenizers.wait_loaded()
        self.now = 100.0
        self.fallbacks: list[str] = []
        self.reader = PromptReader(
            config, self.tokenizers, ask, clock=lambda: self.now, on_fallback=self.fallbacks.append
        )

    def begin(self, body, workers=None, policy=Reads, model="m", alone=False):
        return self.reader.read_prompt(request(body, model), policy(), workers or [worker()], alone=alone)

    async def read(self, body, **more) -> RoutingRequest:
        found = self.begin(body, **more)
        return found if isinstance(found, RoutingRequest) else await found


@pytest.fixture(scope="module")
def guide() -> Tokenizer:
    return Tokenizer.load(GUIDE)


def rendered(tokenizer: Tokenizer, messages) -> list[int]:
    text = tokenizer.render(messages, add_generation_prompt=True)
    return tokenizer.encode(text, add_special_tokens=False)


def blocks_of(ids, seed=1337):
    return hash_token_blocks(pack_tokens(ids), 16, seed)


# ---------------------------------------------------------------- ids in the request


@pytest.mark.parametrize(
    "body",
    [
        {"input_ids": IDS},
        {"input_ids": [IDS, [1, 2]]},
        {"prompt": IDS},
        {"prompt": [IDS, [1, 2]]},
        {"prompt": "text", "prompt_token_ids": IDS},
        {"text": "text", "nvext": {"token_data": IDS}},
        {**CHAT, "nvext": {"token_data": IDS}},
        {**CHAT, "prompt_token_ids": IDS},
        {**CHAT, "input_ids": IDS},
    ],
)
async def test_ids_in_the_request_go_first(body):
    found = await Reader(GUIDE).read(body)
    assert (found.source, found.tokens, found.tokenized) == ("ids", 64, True)
    assert found.blocks == blocks_of(IDS)


@pytest.mark.parametrize("field", ["input_ids", "lists", "nvext"])
async def test_of_a_list_of_a_million_ids_the_first_are_named_and_all_counted(field):
    ids = list(range(1_000_000))
    body = {"lists": {"input_ids": [ids, [1]]}, "nvext": {**CHAT, "nvext": {"token_data": ids}}}
    found = await Reader(GUIDE).read(body.get(field, {field: ids}))
    assert (found.source, found.tokens) == ("ids", 1_000_000)
    named = len(found.blocks)
    assert named > 8_000 and found.blocks == blocks_of(ids[: named * 16])


@pytest.mark.parametrize(
    "body",
    [
        {"input_ids": [-1, 2]},
        {"input_ids": [1, "a"]},
        {"input_ids": [[]]},
        {"input_ids": []},
        {"input_ids": 7},
        {"prompt": [1, 2.5]},
        {"prompt": []},
        {"prompt": [None]},
        {"prompt": {"a": 1}},
        {"prompt": None},
        {"text": ["a", 1]},
        {"text": 5},
        {**CHAT, "nvext": 3},
        {**CHAT, "nvext": {"token_data": ["a"]}},
        {"messages": {"a": 1}},
        {"messages": [1, 2]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "nobody", "content": "x"}]},
        {**CHAT, "tools": 5},
        {**CHAT, "chat_template_kwargs": [1]},
        {**CHAT, "continue_final_message": "yes", "add_generation_prompt": 1},
        {**CHAT, "cache_salt": 5, "extra_key": [1]},
        {},
    ],
)
async def test_bodies_without_sense_are_left_to_the_worker(body):
    for policy in (Reads, ReadsText):
        assert isinstance(await Reader(GUIDE).read(body, policy=policy), RoutingRequest)


# ---------------------------------------------------------------- the tokenizer


@pytest.mark.parametrize("length", [1, 500, 20_000])
async def test_a_prompt_is_known_by_its_engines_tokens_however_long(guide, length):
    messages = [{"role": "user", "content": ("前缀 prefix " * length)[:length]}]
    reader = Reader(GUIDE)
    for _ in range(2):
        found = await reader.read({"messages": messages})
        assert found.source == "tokenizer"
        assert found.blocks == blocks_of(rendered(guide, messages))
    if length == 20_000:  # known by now: no thread is needed
        assert isinstance(reader.begin({"messages": messages}), RoutingRequest)
        going_on = [*messages, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "more"}]
        found = reader.begin({"messages": going_on})
        assert isinstance(found, RoutingRequest) and found.blocks == blocks_of(rendered(guide, going_on))


async def test_a_body_too_large_to_be_rendered_at_once_is_read_in_a_thread(guide):
    messages = [{"role": "user", "content": "word " * 200}] * 100
    reader = Reader(GUIDE)
    waiting = reader.begin({"messages": messages})
    assert not isinstance(waiting, RoutingRequest)
    assert (await waiting).blocks == blocks_of(rendered(guide, messages))


async def test_a_worker_that_says_where_its_model_lies_is_believed_if_it_lies_here():
    reader = Reader()
    workers = [worker("far", tokenizer_path="/somewhere/else"), worker("near", tokenizer_path=str(GUIDE))]
    assert (await reader.read(CHAT, workers=workers)).source == "text"
    reader.tokenizers.wait_loaded()
    assert (await reader.read(CHAT, workers=workers)).source == "tokenizer"
    assert (await reader.read(CHAT, workers=workers[:1])).source == "text"
    assert not reader.fallbacks


async def test_for_any_model_the_candidates_must_agree():
    reader = Reader(GUIDE)
    other = worker("other")
    other.info = ServerInfo(models=("another",))
    assert (await reader.read(CHAT, model="auto")).source == "tokenizer"
    assert (await reader.read(CHAT, model=None, workers=[worker(), other])).source == "text"


async def test_a_body_that_the_template_refuses_is_known_by_its_text():
    reader = Reader(GUIDE)
    found = await reader.read({"messages": [{"role": "user", "content": [{"type": "image_url"}]}] * 9})
    assert (found.source, found.fallback, found.tokenized) == ("text", "refused", False)
    assert found.blocks and reader.fallbacks == ["refused"]
    assert found.explain() == {"tokens": found.tokens, "source": "text", "fallback": "refused"}


async def test_a_body_too_long_to_be_worth_it_is_known_by_its_text():
    found = await Reader(GUIDE).read({"messages": [{"role": "user", "content": "x" * 2**21}]})
    assert (found.source, found.fallback, len(found.blocks)) == ("text", "too_long", 2**13)


def test_a_directory_without_a_tokenizer_is_a_mistake_in_the_configuration(tmp_path):
    with pytest.raises(ConfigError, match=r"routing\.tokenizers\.m: there is no tokenizer\.json in"):
        Reader(tmp_path)


async def test_without_the_packages_it_says_so_once_and_reads_text(monkeypatch, caplog, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "radixway.core.tokenizer", None)
    (tmp_path / "tokenizer.json").write_text("{}")
    reader = Reader(GUIDE)
    workers = [worker(), worker("other", tokenizer_path=str(tmp_path))]
    assert (await reader.read(CHAT, workers=workers)).source == "text"
    reader.tokenizers.wait_loaded()
    assert (await reader.read(CHAT, workers=workers)).source == "text"
    assert len([record for record in caplog.records if "radixway[tokenizers]" in record.message]) == 1


async def test_a_broken_tokenizer_is_told_of_and_not_used(tmp_path, caplog):
    (tmp_path / "tokenizer.json").write_text("{}")
    assert (await Reader(tmp_path).read(CHAT)).source == "text"
    assert str(tmp_path) in caplog.text


async def test_who_leaves_while_threads_are_busy_is_not_tokenized_for(monkeypatch):
    reader = Reader(GUIDE, tokenize={"threads": 1})
    busy, go_on = threading.Event(), threading.Event()
    asked: list[str] = []
    encode = Tokenizer.encode

    def slow(self, text, **more):
        asked.append(text)
        busy.set()
        assert go_on.wait(20)
        return encode(self, text, **more)

    monkeypatch.setattr(Tokenizer, "encode", slow)
    bodies = [{"messages": [{"role": "user", "content": f"{n} " * 3000}]} for n in range(3)]
    first, second, third = (asyncio.create_task(reader.read(body)) for body in bodies)
    await asyncio.to_thread(busy.wait)
    assert reader.reader._tokens.waiting == 3
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert reader.reader._tokens.waiting == 2
    go_on.set()
    assert (await first).source == (await third).source == "tokenizer"
    assert not any("1 1 1" in text for text in asked)
    assert reader.reader._tokens.waiting == 0


async def test_where_too_many_wait_the_next_is_known_by_its_text(monkeypatch):
    monkeypatch.setattr("radixway.routing.prompt_tokens._MAX_WAITING_PROMPTS", 0)
    reader = Reader(GUIDE)
    assert (await reader.read({"messages": [{"role": "user", "content": "x " * 3000}]})).fallback == "busy"


# ---------------------------------------------------------------- adapters and salts


async def test_an_adapter_and_a_salt_keep_prompts_apart():
    reader = Reader(GUIDE)
    workers = [worker(adapters={"tuned": "m"})]
    body = {"messages": [{"role": "user", "content": "word " * 40}]}
    base = await reader.read(body, workers=workers)
    tuned = await reader.read(body, workers=workers, model="tuned")
    assert tuned.source == base.source == "tokenizer"  # an adapter has its model's tokenizer
    assert not set(tuned.blocks) & set(base.blocks)
    ids = {"input_ids": IDS}
    for model, fields, seed in [
        ("m", {}, namespace_seed()),
        ("m", {"cache_salt": "s"}, namespace_seed(None, "s")),
        ("m", {"extra_key": "s", "cache_salt": ""}, namespace_seed(None, "s")),
        ("m", {"extra_key": "a", "cache_salt": "b"}, namespace_seed(None, "a\0b")),
        ("tuned", {"cache_salt": "s"}, namespace_seed("tuned", "s")),
    ]:
        found = await reader.read({**ids, **fields}, workers=workers, model=model)
        assert found.blocks == blocks_of(IDS, seed)


# ---------------------------------------------------------------- text


async def test_texts_share_blocks_as_far_as_conversations_share_a_beginning():
    reader = Reader()
    messages = [{"role": "user", "content": "a" * 300}]
    tools = [{"type": "function", "function": {"name": "f"}}]
    one = await reader.read({"messages": messages})
    more = await reader.read({"messages": [*messages, {"role": "assistant", "content": "b" * 300}]})
    other = await reader.read({"messages": messages, "tools": tools})
    assert len(one.blocks) == 2 and more.blocks[:2] == one.blocks
    assert other.blocks[0] != one.blocks[0]
    assert one.tokens == pytest.approx(340 / 4, rel=0.1)


async def test_of_several_prompts_the_first_counts():
    reader = Reader()
    one, several = "a" * 400, ["a" * 400, "b" * 4000]
    for field in ("prompt", "text"):
        first, all_of_them = await reader.read({field: one}), await reader.read({field: several})
        assert first.blocks and first.blocks == all_of_them.blocks and first.tokens == all_of_them.tokens


async def test_texts_of_a_prompt_are_those_of_its_messages_and_parts():
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    reader = Reader()
    assert (await reader.read({"messages": parts}, policy=ReadsText)).text == "ab"
    assert (await reader.read({"prompt": ["c", "d"]}, policy=ReadsText)).text == "c"
    assert (await reader.read({"text": "e"}, policy=ReadsText)).text == "e"


# ---------------------------------------------------------------- who does not need it


async def test_where_there_is_nothing_to_choose_nothing_is_read():
    reader = Reader(GUIDE)
    found = reader.begin({"prompt": "word " * 100}, alone=True)
    assert isinstance(found, RoutingRequest)
    assert (found.source, found.blocks) == ("size", ()) and 100 < found.tokens < 150
    assert not len(reader.tokenizers.cache)
    found = reader.begin({"prompt": "word " * 100}, policy=ReadsNothing)
    assert found == RoutingRequest(model="m") and not len(reader.tokenizers.cache)
