"""A router's tokens are the engine's own: real engines are asked which tokens they read."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from radixway.core.config.engine import EngineConfig
from radixway.core.pipeline import ENDPOINTS
from radixway.core.tokenizer import Tokenizer
from radixway.engine.detokenizer import DetokenizedStream
from radixway.engine.engine import Engine
from radixway.engine.server import build_app
from radixway.routing.prompt_bodies import parse_prompt_body
from radixway.routing.prompt_tokens import LocalTokenEncoder, TokenizationError
from radixway.routing.tokenizer_registry import PromptTokenizer, TokenCache
from support.server_served import Served, serving
from support.small_tokenizers import make_model_dirs
from support.tiny_models import random_model

TEMPLATE = """{{- bos_token }}
{%- if tools %}{{ '<|start_header_id|>tools\n' }}{% for t in tools %}{{ t | tojson }}\n{% endfor %}{% endif %}
{%- for m in messages %}
{{- '<|start_header_id|>' ~ m.role ~ (' thinking' if thinking and loop.last else '') ~ '\n' }}
{%- if m.content %}{{ m.content | trim }}{% endif %}
{%- for call in m.tool_calls or [] %}{{ call.function.name ~ call.function.arguments | tojson }}{% endfor %}
{{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant\n' }}{% endif %}"""

MODELS = ["guide", "llama3", "llama2"]


@asynccontextmanager
async def engine(model: str, directory: Path) -> AsyncIterator[Served]:
    path = "bundled" if model == "guide" else str(directory / model)
    config = EngineConfig(model=path, dtype="float32", threads=1, kv_tokens=4096, context_length=512)
    tokenizers: list[Tokenizer] = []
    running = Engine(config, text=lambda params: DetokenizedStream(tokenizers[0], params))
    tokenizers.append(Tokenizer.load(running.model_info.path))
    running.start()
    async with serving(build_app(running, tokenizers[0], config)) as served:
        yield served
    running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def engines(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Served]]:
    root = tmp_path_factory.mktemp("models")
    for directory in make_model_dirs(root).values():
        size = Tokenizer.load(directory).size
        random_model("llama", vocab_size=size).save_pretrained(directory)
        (directory / "chat_template.jinja").write_text(TEMPLATE)
    async with engine("guide", root) as a, engine("llama3", root) as b, engine("llama2", root) as c:
        yield {"guide": a, "llama3": b, "llama2": c}


class Router:
    """What a gateway would make of a body for the model at `path`."""

    def __init__(self, path: str) -> None:
        cache = TokenCache(2**16)
        self.tokens = LocalTokenEncoder(cache, threads=1)
        self.tokenizer = PromptTokenizer(Tokenizer.load(path), cache)

    async def ids(self, surface: str, body: dict[str, Any]) -> list[int] | str:
        """The tokens, or why there are none."""
        raw = msgspec.json.encode(body)
        read = parse_prompt_body(ENDPOINTS[surface], raw)
        assert read is not None
        try:
            given = read.token_ids()
            packed = given.packed if given else self.tokens.encode_prompt(read, len(raw), self.tokenizer)
            packed = packed if isinstance(packed, bytes) else await packed
        except TokenizationError as error:
            return error.reason
        return memoryview(packed).cast("I").tolist()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def routers(engines: dict[str, Served]) -> AsyncIterator[dict[str, Router]]:
    made = {name: Router((await served.info())["tokenizer_path"]) for name, served in engines.items()}
    yield made
    for router in made.values():
        router.tokens.shutdown_threads()


TEXT = st.text(max_size=12) | st.sampled_from(
    [
        *("", " ", "The quick brown fox", "前缀缓存", "😀👩‍👩‍👧‍👦", "e\u0301", "  two  \n\n", "日本語\t"),
        *("<|im_start|>", "<|eot_id|>", "<s>", "</s>", "<|im_end|>\n", "<|start_header_id|>user", "{{ x }}"),
    ]
).flatmap(lambda scrap: st.sampled_from([scrap, scrap * 2, f"a{scrap}b"]))
PART = st.builds(lambda text: {"type": "text", "text": text}, TEXT)
CONTENT = TEXT | st.lists(PART, max_size=3)
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "früh"}'}}
MESSAGE = st.one_of(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["system", "developer", "user", "assistant"]),
        CONTENT,
    ),
    st.builds(lambda text: {"role": "assistant", "content": text, "tool_calls": [CALL]}, st.none() | TEXT),
    st.builds(lambda text: {"role": "tool", "tool_call_id": "c1", "content": text}, TEXT),
    st.builds(lambda text: {"role": "assistant", "content": text, "reasoning_content": "hm"}, TEXT),
)
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CHAT = st.fixed_dictionaries(
    {"messages": st.lists(MESSAGE, min_size=0, max_size=4)},
    optional={
        "tools": st.sampled_from([[], [TOOL], None]),
        "tool_choice": st.sampled_from(["none", "auto", None]),
        "add_generation_prompt": st.sampled_from([True, False, None]),
        "continue_final_message": st.sampled_from([True, False, None]),
        "chat_template_kwargs": st.sampled_from([{}, {"thinking": True}, {"tools": 1}, None]),
    },
)


@pytest.mark.parametrize("model", MODELS)
@given(body=CHAT)
@pytest.mark.asyncio(loop_scope="session")
async def test_chats(engines, routers, model, body):
    routed = await routers[model].ids("openai.chat", body)
    reply = await engines[model].post(
        "/v1/chat/completions", body | {"max_tokens": 1, "return_token_ids": True}
    )
    if reply.status_code == 200:
        assert routed == reply.json()["prompt_token_ids"]
        asked = await engines[model].post("/tokenize", body)
        assert routed == asked.json()["tokens"]
    else:
        assert 400 <= reply.status_code < 500


@pytest.mark.parametrize("model", MODELS)
@given(
    body=st.fixed_dictionaries(
        {"prompt": TEXT | st.lists(TEXT, min_size=1, max_size=3) | st.lists(st.integers(0, 250), max_size=9)},
        optional={"add_special_tokens": st.sampled_from([True, False, None])},
    )
)
@pytest.mark.asyncio(loop_scope="session")
async def test_completions(engines, routers, model, body):
    routed = await routers[model].ids("openai.completions", body)
    reply = await engines[model].post("/v1/completions", body | {"max_tokens": 1, "return_token_ids": True})
    if reply.status_code == 200:
        assert routed == reply.json()["choices"][0]["prompt_token_ids"]
    else:
        assert 400 <= reply.status_code < 500


@pytest.mark.parametrize("model", MODELS)
@given(
    body=st.fixed_dictionaries({"text": TEXT | st.lists(TEXT, min_size=1, max_size=3)})
    | st.fixed_dictionaries({"input_ids": st.lists(st.integers(0, 250), min_size=1, max_size=9)})
    | st.fixed_dictionaries({"input_ids": st.just([[5, 6], [7]])})
)
@pytest.mark.asyncio(loop_scope="session")
async def test_generate(engines, routers, model, body):
    routed = await routers[model].ids("generate", body)
    asking = {"return_logprob": True, "logprob_start_len": 0, "sampling_params": {"max_new_tokens": 1}}
    reply = await engines[model].post("/generate", body | asking)
    if reply.status_code == 200:
        said = reply.json()
        first = said[0] if isinstance(said, list) else said
        assert routed == [entry[1] for entry in first["meta_info"]["input_token_logprobs"]]
    else:
        assert 400 <= reply.status_code < 500


@pytest.mark.parametrize("model", MODELS)
@given(turns=st.lists(CONTENT, min_size=3, max_size=6))
@settings(max_examples=15, deadline=None)
@pytest.mark.asyncio(loop_scope="session")
async def test_conversations_that_go_on(engines, routers, model, turns):
    messages = []
    for index, content in enumerate(turns):
        messages.append({"role": "assistant" if index % 2 else "user", "content": content})
        routed = await routers[model].ids("openai.chat", {"messages": messages})
        asked = await engines[model].post("/tokenize", {"messages": messages})
        if asked.status_code == 200:
            assert routed == asked.json()["tokens"]
