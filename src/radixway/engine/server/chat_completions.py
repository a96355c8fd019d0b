"""POST /v1/chat/completions: the body, the prompt it makes, and the replies, whole or streamed."""

import json
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from radixway.core.http import BadBodyError
from radixway.core.parsers import (
    AnswerFormat,
    AnswerTextReader,
    CallDelta,
    detect_thinking_place,
)
from radixway.core.tokenizer import render_chat
from radixway.engine.engine_request import RequestOutput
from radixway.engine.server.beam_search import search_beams
from radixway.engine.server.engine_service import EngineService, GenerationJob
from radixway.engine.server.http_exchange import HttpExchange
from radixway.engine.server.openai_fields import (
    SamplingBody,
    check_choices,
    check_named_logprobs,
    find_constraint,
)
from radixway.engine.server.openai_replies import (
    ChatChoice,
    ChatMessage,
    CompletionReply,
    FunctionCall,
    ReplyHead,
    ToolCall,
    choose_reply_id,
    finish_reason_name,
    make_chat_logprobs,
    make_logprob_format,
    make_prompt_logprobs,
    make_weight_metadata,
    send_replies,
    set_stop,
    sum_usage,
)
from radixway.engine.server.prompt_truncation import parse_truncation
from radixway.engine.server.reasoning import (
    ReasoningBuffer,
    ReasoningCounts,
    reads_special_tokens,
    wrap_reasoner_grammar,
)
from radixway.engine.server.sampling import (
    TokenRules,
    broadcast_values,
    field_names,
    make_sampling_params,
)
from radixway.engine.server.tools import ToolUse, compile_tool_grammar, parse_tool_use
from radixway.engine.server.unsupported_fields import unsupported_field_error


class ThinkingField(msgspec.Struct):
    """`thinking` of a chat request."""

    type: Literal["enabled", "disabled"]


class ChatCompletionBody(SamplingBody, kw_only=True):
    """The request."""

    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    functions: Any = None
    function_call: Any = None
    max_completion_tokens: int | None = None
    logprobs: bool | Literal["true", "false"] | None = None
    top_logprobs: int | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template: Any = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_special_tokens: bool | None = None
    """Encode the prompt with the tokenizer's own special tokens, besides those of the template."""
    documents: list[dict[str, Any]] | None = None
    """Given to the template."""
    reasoning_effort: str | None = None
    """Given to the template, which may also think or not by it (`none`)."""
    thinking: ThinkingField | None = None
    """SGLang's: whether a template that can do both thinks."""
    separate_reasoning: bool | None = None
    stream_reasoning: bool | None = None
    """False: all of the reasoning in one chunk; SGLang's."""
    include_reasoning: bool | None = None
    """False: leave out the reasoning; vLLM's."""
    echo: bool | None = None
    """Begin the answer with the last message, if that is the assistant's; vLLM's."""
    return_prompt_text: bool | None = None
    return_prompt_token_ids: bool | None = None
    """SGLang's: the prompt's tokens in each choice."""

    def __post_init__(self) -> None:
        if isinstance(self.logprobs, str):  # as pydantic, and so vLLM, takes it
            self.logprobs = self.logprobs == "true"

    @property
    def max_tokens_field(self) -> str:
        return "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"

    @property
    def template_arguments(self) -> dict[str, Any]:
        """The template's variables."""
        arguments: dict[str, Any] = {}
        if self.documents is not None:
            arguments["documents"] = self.documents
        if self.reasoning_effort is not None:
            effort = self.reasoning_effort
            arguments |= {"reasoning_effort": effort, "enable_thinking": effort != "none"}
        if self.thinking is not None:
            arguments["enable_thinking"] = self.thinking.type == "enabled"
        return arguments | (self.chat_template_kwargs or {})


@dataclass(slots=True, frozen=True)
class ChatPrompt:
    """A conversation as the model reads it."""

    text: str
    ids: list[int]


async def render_chat_prompt(
    service: EngineService, body: ChatCompletionBody, *, body_bytes: int, must_fit: bool = True
) -> ChatPrompt:
    """Render the conversation of `body` with the chat template.

    Raises BadBodyError (400) or TemplateError for inexpressible bodies, and for a conversation too long
    for the context, unless it need not fit.
    """
    if body.messages is None:
        raise BadBodyError("messages: missing", param="messages", code="missing_field")
    if body.chat_template is not None:
        raise unsupported_field_error("chat_template", "in a request")
    for name in ("functions", "function_call"):
        if getattr(body, name):
            raise unsupported_field_error(name, "(deprecated: give tools and tool_choice)")
    tokenizer = service.tokenizer
    parse_tool_use(body.tools, body.tool_choice)
    truncation = parse_truncation(service, body, getattr(body, body.max_tokens_field))

    def render_and_encode() -> ChatPrompt:
        text = render_chat(
            tokenizer,
            body.messages or [],
            tools=body.tools,
            tool_choice=body.tool_choice,
            add_generation_prompt=body.add_generation_prompt,
            continue_final_message=body.continue_final_message,
            arguments=body.template_arguments,
        )
        if truncation is not None:
            text = truncation.cut_text(text)
        elif must_fit:
            service.check_length(text, "messages")
        ids = tokenizer.encode(text, add_special_tokens=bool(body.add_special_tokens))
        return ChatPrompt(text, ids if truncation is None else truncation.cut_tokens(ids))

    prompt = await service.run_off_loop(render_and_encode, characters=body_bytes)
    service.check_token_ids(prompt.ids, "messages")
    return prompt


class ChatReplies:
    """Makes replies of answers to one request; `reading` says how to read them."""

    def __init__(
        self,
        service: EngineService,
        body: ChatCompletionBody,
        head: ReplyHead,
        prompt_ids: list[int],
        reading: AnswerFormat,
    ) -> None:
        self._tokenizer = service.tokenizer
        self._logprob_format = make_logprob_format(service.tokenizer, body)
        self._eos_token_ids = service.engine.model_info.eos_token_ids
        self._body = body
        self.head = head
        self._prompt_ids = prompt_ids
        self._reading = reading
        self._readers: dict[int, AnswerTextReader] = {}
        self._echo = _last_answer_text(body) if body.echo else ""
        self._prompt_text: str | UnsetType = UNSET
        if body.return_prompt_text:
            self._prompt_text = service.tokenizer.decode(prompt_ids, skip_special_tokens=False)
        self._shows_reasoning = body.include_reasoning is not False
        self._reasoning = ReasoningCounts(service.tokenizer, reading.place)
        self._buffer = ReasoningBuffer()
        # SGLang's clients, who send these, read the field in every delta.
        is_sglang = not (body.separate_reasoning is body.stream_reasoning is None)
        self._no_reasoning = None if is_sglang else UNSET

    def make_completion(self, answers: list[RequestOutput]) -> CompletionReply:
        """The reply with each of `answers` as a message."""
        choices = [self._make_message(index, answer) for index, answer in enumerate(answers)]
        for index, answer in enumerate(answers):
            self.count_reasoning(index, answer)
        reply = self.head.make_reply(choices)
        reply.usage = sum_usage(answers, len(answers), self._reasoning.total)
        reply.prompt_token_ids = self._prompt_ids if self._body.return_token_ids else None
        reply.prompt_text = self._prompt_text
        reply.prompt_logprobs = None
        if (num_top := self._body.prompt_logprobs) is not None:
            reply.prompt_logprobs = make_prompt_logprobs(self._tokenizer, answers[0].prompt_logprobs, num_top)
        reply.metadata = make_weight_metadata(answers[0])
        return reply

    def count_reasoning(self, index: int, output: RequestOutput) -> int:
        """Return how many tokens of answer `index` are reasoning, to the end of its next `output`."""
        return self._reasoning.add_tokens(index, output.token_ids)

    @property
    def reasoning_tokens(self) -> int:
        """Of all answers so far."""
        return self._reasoning.total

    def make_chunks(self, index: int, output: RequestOutput) -> list[CompletionReply]:
        """The chunks for one output: the role first, then what is added to the message, if anything is."""
        chunks = []
        reader = self._readers.get(index)
        if reader is None:
            reader = self._readers[index] = self._reading.create_reader()
            role = ChatMessage("assistant", self._echo, self._no_reasoning)
            begin = ChatChoice(index=index, delta=role, finish_reason=None, token_ids=UNSET)
            set_stop(begin, None, self._eos_token_ids)
            chunks.append(self.head.make_reply([begin]))
            chunks[0].prompt_token_ids = self._prompt_ids if self._body.return_token_ids else UNSET
            chunks[0].prompt_text = self._prompt_text
        delta = reader.read_delta(output.text, last=output.finish is not None)
        if self._body.stream_reasoning is False:
            self._buffer.hold_reasoning(index, delta, last=output.finish is not None)
        has_tokens = output.token_ids and (self._body.return_token_ids or self._body.logprobs)
        if delta or output.finish or has_tokens:
            choice = self._make_choice(index, output, reader, in_stream=True)
            reasoning = delta.reasoning if self._shows_reasoning else ""
            choice.delta = ChatMessage(
                content=delta.content or ("" if not reasoning and not delta.calls else UNSET),
                reasoning_content=reasoning or self._no_reasoning,
                tool_calls=[_make_tool_call(call, in_stream=True) for call in delta.calls] or UNSET,
            )
            chunks.append(self.head.make_reply([choice]))
        return chunks

    def _make_message(self, index: int, answer: RequestOutput) -> ChatChoice:
        reader = self._reading.create_reader()
        delta = reader.read_delta(answer.text, last=True)
        choice = self._make_choice(index, answer, reader)
        choice.message = ChatMessage(
            role="assistant",
            content=None if delta.calls and not delta.content else self._echo + delta.content,
            reasoning_content=(delta.reasoning if self._shows_reasoning else "") or self._no_reasoning,
            tool_calls=[_make_tool_call(call) for call in delta.calls] or UNSET,
        )
        return choice

    def _make_choice(
        self, index: int, part: RequestOutput, reader: AnswerTextReader, *, in_stream: bool = False
    ) -> ChatChoice:
        logprobs = make_chat_logprobs(self._logprob_format, part.logprobs) if self._body.logprobs else None
        reason = finish_reason_name(part.finish)
        choice = ChatChoice(
            index=index,
            logprobs=logprobs,
            finish_reason="tool_calls" if reason == "stop" and reader.has_tool_call else reason,
            token_ids=part.token_ids if self._body.return_token_ids else UNSET if in_stream else None,
        )
        if self._body.return_prompt_token_ids and not in_stream:
            choice.prompt_token_ids = self._prompt_ids
        set_stop(choice, part.finish, self._eos_token_ids)
        return choice


def _last_answer_text(body: ChatCompletionBody) -> str:
    """The text of the last message, if that is the assistant's."""
    last = (body.messages or [{}])[-1]
    content = last.get("content") if last.get("role") == "assistant" else None
    parts: list[dict[str, Any]] = content if isinstance(content, list) else [{"text": content}]
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _make_tool_call(call: CallDelta, *, in_stream: bool = False) -> ToolCall:
    """Return a whole tool call, or a delta: id, type and name come once."""
    first = call.name is not None
    return ToolCall(
        index=call.index if in_stream else UNSET,
        id=call.id if call.id is not None else UNSET,
        type="function" if first else UNSET,
        function=FunctionCall(name=call.name if call.name is not None else UNSET, arguments=call.arguments),
    )


async def chat_completions(service: EngineService, exchange: HttpExchange, body: ChatCompletionBody) -> None:
    """Answer a conversation, whole or streamed."""
    chat = await prepare_chat(service, exchange, body)
    with field_names(chat.field_names):
        kind = "chat.completion.chunk" if body.stream else "chat.completion"
        head = ReplyHead(choose_reply_id("chatcmpl", body, exchange), kind, service.names[0])
        replies = ChatReplies(service, body, head, chat.prompt.ids, chat.reading)
        if body.use_beam_search:
            beams = await search_beams(service, exchange, body, chat.jobs, len(chat.jobs))
            await exchange.send_json(replies.make_completion(beams))
            return
        async with service.start_generations(
            exchange, chat.jobs, body, extra_key=body.extra_key, client_ids=body.client_ids
        ) as answers:
            await send_replies(exchange, body, answers, replies, per_prompt=len(chat.jobs))


@dataclass(slots=True, frozen=True)
class PreparedChat:
    """A checked request: its prompt, the generations to run, and how to read their answers."""

    prompt: ChatPrompt
    jobs: list[GenerationJob]
    reading: AnswerFormat
    field_names: dict[str, str]
    """Fields of the engine's errors by their names in the body."""


async def prepare_chat(
    service: EngineService, exchange: HttpExchange, body: ChatCompletionBody
) -> PreparedChat:
    """Check `body`, render its conversation and compile its grammar.

    Raises HttpError or TemplateError naming the field at fault.
    """
    service.check_model(body.model)
    (rid,) = broadcast_values("rid", body.rid, 1, body.request_id or exchange.request_id)
    n = check_choices(body, service.check_logprobs)
    wanted = find_constraint(body)
    use = parse_tool_use(body.tools, body.tool_choice, body.parallel_tool_calls)
    body.top_logprobs = service.check_logprobs("top_logprobs", body.top_logprobs)
    if body.top_logprobs and not body.logprobs:
        raise BadBodyError("top_logprobs needs logprobs: true", param="top_logprobs")
    check_named_logprobs(body, logprobs=bool(body.logprobs))
    if body.return_prompt_token_ids and body.stream:
        raise unsupported_field_error("return_prompt_token_ids", "in a stream (give return_token_ids)")
    max_tokens_field = body.max_tokens_field
    max_tokens: int | None = getattr(body, max_tokens_field)
    if max_tokens == 0:
        raise BadBodyError(f"{max_tokens_field} must be at least 1", param=max_tokens_field)
    if max_tokens is not None and max_tokens > (limit := service.engine.model_info.context_length):
        message = f"max_completion_tokens is too large: {max_tokens}, and the context holds {limit} tokens"
        raise BadBodyError(message, param=max_tokens_field, code="context_length_exceeded")

    names = {"prompt": "messages", "max_tokens": max_tokens_field}
    with field_names(names):
        prompt = await render_chat_prompt(service, body, body_bytes=exchange.body_bytes)
        reading = _make_reading(service, body, use, prompt)
        grammar = await compile_tool_grammar(service, use, wanted, reading.tools)
        grammar = wrap_reasoner_grammar(service.tokenizer, grammar, reading.place)
        if body.skip_special_tokens is None and reads_special_tokens(service.tokenizer, reading):
            body.skip_special_tokens = False
        default_max_tokens = service.default_max_tokens(prompt.ids)
        rules = TokenRules.parse_rules(service.tokenizer, body.allowed_token_ids, body.bad_words)
        all_params = [
            make_sampling_params(
                body,
                service.defaults,
                max_tokens=default_max_tokens if max_tokens is None else max_tokens,
                logprobs=(body.top_logprobs or 0) if body.logprobs else None,
                logprob_ids=tuple(body.logprob_token_ids or ()),
                rules=rules,
                prompt_logprobs=None if choice else body.prompt_logprobs,
                choice=choice,
                grammar=grammar,
            )
            for choice in range(n)
        ]
        jobs = [GenerationJob(prompt.ids, params, rid) for params in all_params]
        return PreparedChat(prompt, jobs, reading, names)


def _make_reading(
    service: EngineService, body: ChatCompletionBody, use: ToolUse, prompt: ChatPrompt
) -> AnswerFormat:
    last = (body.messages or [{}])[-1].get("content") if body.continue_final_message else None
    continued = json.dumps(last, ensure_ascii=False) if body.continue_final_message else None
    style = None if body.separate_reasoning is False else service.family.thinking
    place = detect_thinking_place(style, prompt.text, continued)
    return AnswerFormat(place, use.call_family(service.family.tools), None if use.parallel else 1)
