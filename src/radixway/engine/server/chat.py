"""POST /v1/chat/completions."""

import time
from typing import Any

import msgspec
from msgspec import UNSET

from radixway.engine.request import Output
from radixway.engine.server.answers import Answer
from radixway.engine.server.constraints import compiled, wanted_constraint
from radixway.engine.server.exchange import Exchange
from radixway.engine.server.messages import template_messages, template_tools
from radixway.engine.server.openai_replies import (
    ChatChoice,
    ChatMessage,
    Completion,
    chat_logprobs,
    finish_reason,
    prompt_logprobs,
    stop_reason,
    usage,
    weight_metadata,
)
from radixway.engine.server.openai_stream import ReplyHead, encode, stream_choices
from radixway.engine.server.sampling import (
    SamplingBody,
    check_choices,
    check_logprobs,
    sampling_params,
    unsupported,
    wire_names,
)
from radixway.engine.server.service import Job, Service
from radixway.web import BadBody, read_json


class ChatBody(SamplingBody, kw_only=True):
    """The request."""

    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template: Any = None
    chat_template_kwargs: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(ChatBody)


async def chat_completions(service: Service, exchange: Exchange, raw: bytes) -> None:
    """Answer a conversation, whole or streamed."""
    arrived_at = time.perf_counter()
    body = read_json(_decoder, raw)
    service.check_model(body.model)
    n = check_choices(body)
    wanted = wanted_constraint(body)
    check_logprobs("top_logprobs", body.top_logprobs)
    if body.top_logprobs and not body.logprobs:
        raise BadBody("top_logprobs needs logprobs: true", param="top_logprobs", code="invalid_value")
    max_tokens_field = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    max_tokens: int | None = getattr(body, max_tokens_field)
    if max_tokens == 0:
        raise BadBody(f"{max_tokens_field} must be at least 1", param=max_tokens_field, code="invalid_value")

    with wire_names({"prompt": "messages", "max_tokens": max_tokens_field}):
        grammar = await compiled(service, wanted)
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
        prompt_ids = await chat_prompt_ids(service, body, body_bytes=len(raw))
        async with service.generate(
            [Job(prompt_ids, params, exchange.request_id) for params in all_params],
            arrived_at=arrived_at,
            namespace=body.cache_salt,
            priority=body.priority,
        ) as answers:
            kind = "chat.completion.chunk" if body.stream else "chat.completion"
            head = ReplyHead(f"chatcmpl-{exchange.request_id}", kind, int(time.time()), service.names[0])
            if body.stream:
                chunks = _Chunks(service, body, head, prompt_ids)
                await stream_choices(
                    exchange, head, answers, chunks, per_prompt=n, include_usage=body.include_usage
                )
            else:
                reply = _whole_reply(service, body, head, prompt_ids, await answers.gather())
                await exchange.send_json(encode(reply))


async def chat_prompt_ids(
    service: Service, body: ChatBody, *, body_bytes: int, must_fit: bool = True
) -> list[int]:
    """The conversation as token ids. Raises BadBody (400) or TemplateError for what cannot be said so.

    Also for a conversation too long for the context, unless it need not fit.
    """
    if body.messages is None:
        raise BadBody("messages: missing", param="messages", code="missing_field")
    if body.chat_template is not None:
        raise unsupported("chat_template", "in a request")
    tokenizer = service.tokenizer
    template = tokenizer.chat_templates.get("default")
    knows_developer = template is not None and "developer" in template.source
    messages = template_messages(body.messages, knows_developer=knows_developer)
    tools = template_tools(body.tools, body.tool_choice)
    continues = bool(body.continue_final_message)
    add_generation_prompt = (
        not continues if body.add_generation_prompt is None else body.add_generation_prompt
    )

    def render_and_encode() -> list[int]:
        text = tokenizer.render(
            messages,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continues,
            arguments=body.chat_template_kwargs,
        )
        if must_fit:
            service.check_length(text, "messages")
        return tokenizer.encode(text, add_special_tokens=False)

    ids = await service.off_the_loop(render_and_encode, characters=body_bytes)
    service.check_token_ids(ids, "messages")
    return ids


def _whole_reply(
    service: Service, body: ChatBody, head: ReplyHead, prompt_ids: list[int], answers: list[Answer]
) -> Completion:
    reply = head.reply(
        [
            ChatChoice(
                index=index,
                message=ChatMessage(role="assistant", content=answer.text),
                logprobs=chat_logprobs(service.tokenizer, answer.logprobs) if body.logprobs else None,
                finish_reason=finish_reason(answer.finish),
                stop_reason=stop_reason(answer.finish, service.engine.model_info.eos_token_ids),
                token_ids=answer.token_ids if body.return_token_ids else UNSET,
            )
            for index, answer in enumerate(answers)
        ]
    )
    reply.usage = usage(answers, len(answers))
    reply.prompt_token_ids = prompt_ids if body.return_token_ids else UNSET
    if body.prompt_logprobs is not None:
        reply.prompt_logprobs = prompt_logprobs(
            service.tokenizer, answers[0].prompt_logprobs, body.prompt_logprobs
        )
    reply.metadata = weight_metadata(answers[0])
    return reply


class _Chunks:
    """Makes the chunks of a streamed answer: the role first, then text as it comes."""

    def __init__(self, service: Service, body: ChatBody, head: ReplyHead, prompt_ids: list[int]) -> None:
        self._tokenizer = service.tokenizer
        self._eos_token_ids = service.engine.model_info.eos_token_ids
        self._head = head
        self._logprobs = bool(body.logprobs)
        self._token_ids = bool(body.return_token_ids)
        self._prompt_ids = prompt_ids
        self._begun: set[int] = set()

    def __call__(self, index: int, output: Output) -> list[Completion]:
        chunks = []
        if index not in self._begun:
            self._begun.add(index)
            role = ChatMessage(role="assistant", content="")
            first = self._head.reply([ChatChoice(index=index, delta=role, finish_reason=None)])
            first.prompt_token_ids = self._prompt_ids if self._token_ids else UNSET
            chunks.append(first)
        has_tokens = output.token_ids and (self._token_ids or self._logprobs)
        if output.text or output.finish or has_tokens:
            choice = ChatChoice(
                index=index,
                delta=ChatMessage(content=output.text or UNSET),
                logprobs=chat_logprobs(self._tokenizer, output.logprobs) if self._logprobs else None,
                finish_reason=finish_reason(output.finish),
                stop_reason=stop_reason(output.finish, self._eos_token_ids),
                token_ids=output.token_ids if self._token_ids else UNSET,
            )
            chunks.append(self._head.reply([choice]))
        return chunks
