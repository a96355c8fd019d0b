"""POST /v1/chat/completions."""

import json
import time

import msgspec

from radixway.engine.constraint import AfterThinking, Grammar
from radixway.engine.server.chat_body import ChatBody, ChatPrompt, chat_prompt
from radixway.engine.server.chat_replies import ChatReplies
from radixway.engine.server.constraints import wanted_constraint
from radixway.engine.server.exchange import Exchange
from radixway.engine.server.openai_stream import ReplyHead, encode, stream_choices
from radixway.engine.server.sampling import (
    check_choices,
    check_logprobs,
    one_for_each,
    sampling_params,
    wire_names,
)
from radixway.engine.server.service import Job, Service, namespace_of
from radixway.engine.server.tools import ToolUse, tool_use, tools_or_constraint
from radixway.parsers import CLOSES, OPENS, Reading, thinking_place
from radixway.tokenizer import Tokenizer
from radixway.web import BadBody, read_json

_decoder = msgspec.json.Decoder(ChatBody)


async def chat_completions(service: Service, exchange: Exchange, raw: bytes) -> None:
    """Answer a conversation, whole or streamed."""
    arrived_at = time.perf_counter()
    body = read_json(_decoder, raw)
    service.check_model(body.model)
    (rid,) = one_for_each("rid", body.rid, 1, exchange.request_id)
    n = check_choices(body)
    wanted = wanted_constraint(body)
    use = tool_use(body.tools, body.tool_choice, body.parallel_tool_calls)
    check_logprobs("top_logprobs", body.top_logprobs)
    if body.top_logprobs and not body.logprobs:
        raise BadBody("top_logprobs needs logprobs: true", param="top_logprobs", code="invalid_value")
    max_tokens_field = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    max_tokens: int | None = getattr(body, max_tokens_field)
    if max_tokens == 0:
        raise BadBody(f"{max_tokens_field} must be at least 1", param=max_tokens_field, code="invalid_value")

    with wire_names({"prompt": "messages", "max_tokens": max_tokens_field}):
        prompt = await chat_prompt(service, body, body_bytes=len(raw))
        reading = _reading(service, body, use, prompt)
        grammar = await tools_or_constraint(service, use, wanted, reading.tools)
        grammar = _after_thinking(service.tokenizer, grammar, reading)
        if body.skip_special_tokens is None and _reads_special_tokens(service.tokenizer, reading):
            body.skip_special_tokens = False
        all_params = [
            sampling_params(
                body,
                service.defaults,
                max_tokens=max_tokens,
                logprobs=(body.top_logprobs or 0) if body.logprobs else None,
                prompt_logprobs=None if choice else body.prompt_logprobs,
                choice=choice,
                grammar=grammar,
            )
            for choice in range(n)
        ]
        async with service.generate(
            [Job(prompt.ids, params, rid) for params in all_params],
            arrived_at=arrived_at,
            namespace=namespace_of(cache_salt=body.cache_salt),
            priority=body.priority,
            meeting=body,
            traced=exchange.traced,
            also_known_as=[exchange.request_id],
        ) as answers:
            kind = "chat.completion.chunk" if body.stream else "chat.completion"
            head = ReplyHead(f"chatcmpl-{exchange.request_id}", kind, int(time.time()), service.names[0])
            replies = ChatReplies(service, body, head, prompt.ids, reading)
            if body.stream:
                await stream_choices(
                    exchange, head, answers, replies.chunks, per_prompt=n, include_usage=body.include_usage
                )
            else:
                await exchange.send_json(encode(replies.whole(await answers.gather())))


def _reading(service: Service, body: ChatBody, use: ToolUse, prompt: ChatPrompt) -> Reading:
    """How the answers to this request are to be read."""
    last = (body.messages or [{}])[-1].get("content") if body.continue_final_message else None
    continued = json.dumps(last, ensure_ascii=False) if body.continue_final_message else None
    style = None if body.separate_reasoning is False else service.family.thinking
    place = thinking_place(style, prompt.text, continued)
    return Reading(place, use.family(service.family.tools), None if use.parallel else 1)


def _after_thinking(tokenizer: Tokenizer, grammar: Grammar | None, reading: Reading) -> Grammar | None:
    """The grammar for what follows the thinking, where the model may or does think first."""
    opens = tokenizer.backend.token_to_id(OPENS) if reading.place == "before" else None
    if grammar is None or (reading.place != "inside" and opens is None):
        return grammar
    inside = reading.place == "inside"
    return AfterThinking(grammar, tokenizer.token_bytes, opens=opens, closes=CLOSES, inside=inside)


def _reads_special_tokens(tokenizer: Tokenizer, reading: Reading) -> bool:
    """Whether what the answers are divided by is special tokens, which are left out of text by default."""
    special_ids = tokenizer.special_ids
    return any(tokenizer.backend.token_to_id(marker) in special_ids for marker in reading.markers)
