"""POST /v1/chat/completions."""

import json
import time

import msgspec

from radixway.engine.constraint import ReasonerGrammar, StructuredOutputGrammar
from radixway.engine.server.chat_body import ChatCompletionBody, ChatPrompt, render_chat_prompt
from radixway.engine.server.chat_replies import ChatReplies
from radixway.engine.server.constraints import find_constraint
from radixway.engine.server.exchange import HttpExchange
from radixway.engine.server.openai_stream import ReplyHead, encode, stream_choices
from radixway.engine.server.sampling import (
    broadcast_values,
    check_choices,
    check_logprobs,
    field_names,
    make_sampling_params,
)
from radixway.engine.server.service import EngineService, GenerationJob, prefix_namespace
from radixway.engine.server.tools import ToolUse, compile_tool_grammar, parse_tool_use
from radixway.parsers import CLOSES, OPENS, AnswerFormat, detect_thinking_place
from radixway.tokenizer import Tokenizer
from radixway.web import BadBodyError, decode_json

_decoder = msgspec.json.Decoder(ChatCompletionBody)


async def chat_completions(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """Answer a conversation, whole or streamed."""
    arrived_at = time.perf_counter()
    body = decode_json(_decoder, raw)
    service.check_model(body.model)
    (rid,) = broadcast_values("rid", body.rid, 1, exchange.request_id)
    n = check_choices(body)
    wanted = find_constraint(body)
    use = parse_tool_use(body.tools, body.tool_choice, body.parallel_tool_calls)
    check_logprobs("top_logprobs", body.top_logprobs)
    if body.top_logprobs and not body.logprobs:
        raise BadBodyError("top_logprobs needs logprobs: true", param="top_logprobs", code="invalid_value")
    max_tokens_field = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    max_tokens: int | None = getattr(body, max_tokens_field)
    if max_tokens == 0:
        raise BadBodyError(
            f"{max_tokens_field} must be at least 1", param=max_tokens_field, code="invalid_value"
        )

    with field_names({"prompt": "messages", "max_tokens": max_tokens_field}):
        prompt = await render_chat_prompt(service, body, body_bytes=len(raw))
        reading = _make_reading(service, body, use, prompt)
        grammar = await compile_tool_grammar(service, use, wanted, reading.tools)
        grammar = _wrap_reasoner_grammar(service.tokenizer, grammar, reading)
        if body.skip_special_tokens is None and _reads_special_tokens(service.tokenizer, reading):
            body.skip_special_tokens = False
        all_params = [
            make_sampling_params(
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
        async with service.start_generations(
            [GenerationJob(prompt.ids, params, rid) for params in all_params],
            arrived_at=arrived_at,
            namespace=prefix_namespace(cache_salt=body.cache_salt),
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
                    exchange,
                    head,
                    answers,
                    replies.make_chunks,
                    per_prompt=n,
                    include_usage=body.include_usage,
                )
            else:
                await exchange.send_json(encode(replies.make_completion(await answers.gather_outputs())))


def _make_reading(
    service: EngineService, body: ChatCompletionBody, use: ToolUse, prompt: ChatPrompt
) -> AnswerFormat:
    """How the answers to this request are to be read."""
    last = (body.messages or [{}])[-1].get("content") if body.continue_final_message else None
    continued = json.dumps(last, ensure_ascii=False) if body.continue_final_message else None
    style = None if body.separate_reasoning is False else service.family.thinking
    place = detect_thinking_place(style, prompt.text, continued)
    return AnswerFormat(place, use.call_family(service.family.tools), None if use.parallel else 1)


def _wrap_reasoner_grammar(
    tokenizer: Tokenizer, grammar: StructuredOutputGrammar | None, reading: AnswerFormat
) -> StructuredOutputGrammar | None:
    """The grammar for what follows the thinking, where the model may or does think first."""
    opens = tokenizer.backend.token_to_id(OPENS) if reading.place == "before" else None
    if grammar is None or (reading.place != "inside" and opens is None):
        return grammar
    inside = reading.place == "inside"
    return ReasonerGrammar(grammar, tokenizer.token_bytes, opens=opens, closes=CLOSES, inside=inside)


def _reads_special_tokens(tokenizer: Tokenizer, reading: AnswerFormat) -> bool:
    """Whether what the answers are divided by is special tokens, which are left out of text by default."""
    special_ids = tokenizer.special_ids
    return any(tokenizer.backend.token_to_id(marker) in special_ids for marker in reading.markers)
