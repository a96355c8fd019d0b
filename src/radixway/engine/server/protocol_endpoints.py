"""POST /v1/messages and /v1/responses: Anthropic's and OpenAI's protocols of agents, whole or streamed.

Bodies and replies are converted by the adapters that the gateway's sessions use; between them each request is
a chat completion. Nothing is kept: a response cannot be gone on from, fetched or run in the background.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import msgspec

from radixway.core.http import HttpError, ReshapedError
from radixway.core.http import field_error as conversion_error
from radixway.core.parsers import ReasoningTokenCounter, ThinkingPart
from radixway.core.protocols import (
    AnswerDelta,
    AnthropicAdapter,
    FinishInfo,
    GeneratedAnswer,
    NormalizedRequest,
    ProtocolAdapter,
    ReplyMetadata,
    ResponsesAdapter,
    SampledTokenLogprob,
)
from radixway.core.protocols.anthropic import CountTokensBody, MessagesBody
from radixway.core.protocols.request import field_error
from radixway.core.protocols.responses import ResponsesBody
from radixway.core.tokenizer import TemplateError
from radixway.engine.engine_request import RequestOutput, TokenLogprob
from radixway.engine.server.chat_completions import (
    ChatCompletionBody,
    PreparedChat,
    prepare_chat,
    render_chat_prompt,
)
from radixway.engine.server.engine_service import EngineService
from radixway.engine.server.generation_group import GenerationGroup
from radixway.engine.server.http_exchange import HttpExchange
from radixway.engine.server.sampling import field_names
from radixway.engine.server.unsupported_fields import unsupported_field_error

_OTHER_REPLIES = (
    *("n", "best_of", "echo", "logprobs", "prompt_logprobs", "logprob_token_ids", "return_token_ids"),
    *("return_prompt_text", "return_prompt_token_ids", "return_tokens_as_token_ids", "use_beam_search"),
)
"""Fields of chat completions that ask for what replies of these protocols have no place for."""


class ProtocolEndpoint:
    """Answers one protocol; `body` describes its requests."""

    def __init__(
        self,
        name: str,
        adapter: ProtocolAdapter,
        body: type[msgspec.Struct],
        field_names: Mapping[str, str],
        form_field: str,
    ) -> None:
        """`field_names`: patterns of fields of chat completions by their names here; `form_field` holds the
        `format` of answers."""
        self.__name__ = name
        self.__doc__ = f"Answer a conversation as {adapter.name}, whole or streamed."
        self.body = body
        self.adapter = adapter
        self._field_names = field_names
        self._form_field = form_field

    async def __call__(self, service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
        request = self.adapter.parse_request(raw)
        request = replace(request, body={**request.body, "store": False})  # as replies say it
        with self.renamed_fields():
            body = self.make_chat_body(request)
            chat = await prepare_chat(service, exchange, body)
            head = ReplyMetadata(exchange.request_id, service.names[0], int(time.time()), chat.prompt.ids)
            with field_names(chat.field_names):
                async with service.start_generations(
                    exchange, chat.jobs, body, extra_key=body.extra_key, client_ids=body.client_ids
                ) as answers:
                    converter = AnswerConverter(service, chat, body.include_reasoning is not False)
                    await self._send_answer(exchange, request, head, answers, converter)

    def make_chat_body(self, request: NormalizedRequest) -> ChatCompletionBody:
        """Convert `request` to the chat completion that it is. Raises BadBodyError (400) naming the field."""
        extra = request.extra
        if request.previous_response_id is not None:
            why = "nothing is kept here: send the conversation so far as input"
            raise field_error("previous_response_id", why, code="unsupported")
        for name in _OTHER_REPLIES:
            if extra.get(name) not in (None, False) and (name, extra[name]) != ("n", 1):
                raise unsupported_field_error(name, "in this protocol")
        fields = {name: extra[name] for name in ChatCompletionBody.__struct_encode_fields__ if name in extra}
        sampling = request.chat_sampling
        if (schema := sampling.pop("json_schema", None)) is not None:
            form = (request.body.get(self._form_field) or {}).get("format") or {}
            shape = {"schema": json.loads(schema), "strict": form.get("strict")}
            fields["response_format"] = {"type": "json_schema", "json_schema": shape}
        fields |= sampling | {
            "model": request.model,
            "messages": request.messages,
            "tools": request.tools,
            "tool_choice": request.tool_choice,
            "parallel_tool_calls": request.parallel_tool_calls,
            "chat_template_kwargs": request.template_arguments,
            "continue_final_message": request.continue_final_message,
            "stream": request.stream,
            "logprobs": request.top_logprobs is not None,
            "top_logprobs": request.top_logprobs,
        }
        try:
            return msgspec.convert(fields, ChatCompletionBody, str_keys=True)
        except msgspec.ValidationError as error:
            raise conversion_error(str(error)) from None

    def shape_error(self, error: HttpError) -> HttpError:
        """Return `error` in the protocol's own form."""
        return ReshapedError(error, self.adapter.encode_error_body(error))

    @contextmanager
    def renamed_fields(self) -> Iterator[None]:
        """Within this context errors name fields as the protocol does."""
        try:
            yield
        except (HttpError, TemplateError) as error:
            if error.param is None:
                raise
            param, message = error.param, str(error)
            for pattern, name in self._field_names.items():
                param = re.sub(pattern, name, param)
            if message.startswith(error.param):
                message = param + message.removeprefix(error.param)
            status = error.status if isinstance(error, HttpError) else 400
            raise HttpError(message, status=status, code=error.code, param=param) from None

    async def _send_answer(
        self,
        exchange: HttpExchange,
        request: NormalizedRequest,
        head: ReplyMetadata,
        answers: GenerationGroup,
        converter: "AnswerConverter",
    ) -> None:
        if not request.stream:
            (output,) = await answers.gather_outputs()
            answer = GeneratedAnswer()
            answer.apply_delta(converter.read_output(output))
            reply = self.adapter.encode_reply(request, head, answer, converter.finish_info(output))
            await exchange.send_whole(reply, content_type=b"application/json")
            return
        writer = self.adapter.create_event_writer(request, head)
        exchange.encode_failure = writer.encode_failure

        def make_events(_: int, output: RequestOutput) -> bytes:
            events = b"" if exchange.started else writer.encode_start()
            events += writer.encode_delta(converter.read_output(output))
            if output.finish is not None:
                events += writer.encode_end(converter.finish_info(output))
            return events

        await answers.stream_events(exchange, make_events, end=b"")


class AnswerConverter:
    """Reads the outputs of one generation as parts of an answer."""

    def __init__(self, service: EngineService, chat: PreparedChat, shows_reasoning: bool) -> None:
        self._shows_reasoning = shows_reasoning
        self._token_bytes = service.tokenizer.token_bytes
        self._reader = chat.reading.create_reader()
        self._reasoning = ReasoningTokenCounter(chat.reading.place)

    def read_output(self, output: RequestOutput) -> AnswerDelta:
        """Return what `output` adds, the one after those that were read."""
        parts = self._reader.read_parts(output.text, last=output.finish is not None)
        self._reasoning.count_tokens([self._token_bytes[each] for each in output.token_ids])
        if not self._shows_reasoning:
            parts = [part for part in parts if not isinstance(part, ThinkingPart)]
        return AnswerDelta(parts, output.token_ids, [self._name_token(item) for item in output.logprobs])

    def finish_info(self, last: RequestOutput) -> FinishInfo:
        """Return how the answer ended, by the `last` output, and its counts."""
        assert last.finish is not None
        return FinishInfo(
            last.finish.type,
            last.prompt_tokens,
            last.completion_tokens,
            last.cached_tokens,
            self._reasoning.count,
            last.finish.matched if isinstance(last.finish.matched, str) else None,
        )

    def _name_token(self, item: TokenLogprob) -> SampledTokenLogprob:
        pieces = self._token_bytes
        top = [(pieces[token_id], logprob) for token_id, logprob in item.top]
        return SampledTokenLogprob(pieces[item.token_id], item.logprob, top)


_TOOL = r"^(tools\[\d+\])\.function"
_ANTHROPIC = AnthropicAdapter()

messages = ProtocolEndpoint(
    "messages",
    _ANTHROPIC,
    MessagesBody,
    {
        _TOOL + r"\.parameters": r"\1.input_schema",
        _TOOL: r"\1",
        r"^stop$": "stop_sequences",
        r"^response_format\.json_schema": "output_config.format",
    },
    "output_config",
)
responses = ProtocolEndpoint(
    "responses",
    ResponsesAdapter(),
    ResponsesBody,
    {
        _TOOL: r"\1",
        r"^messages": "input",
        r"^max_tokens$": "max_output_tokens",
        r"^response_format\.json_schema": "text.format",
    },
    "text",
)


class TokenCountEndpoint:
    """Counts the tokens of a conversation as `endpoint`'s protocol writes it."""

    def __init__(
        self,
        endpoint: ProtocolEndpoint,
        body: type[msgspec.Struct],
        parse_request: Callable[[bytes], NormalizedRequest],
        reply: Mapping[str, str],
    ) -> None:
        """`reply`: what stands beside the count."""
        self.__name__ = f"count_{endpoint.__name__}_tokens"
        self.__doc__ = f"Count the tokens of a request as {endpoint.adapter.name}."
        self.body = body
        self._endpoint = endpoint
        self._parse_request = parse_request
        self._reply = reply

    async def __call__(self, service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
        request = self._parse_request(raw)
        with self._endpoint.renamed_fields():
            body = self._endpoint.make_chat_body(request)
            service.check_model(body.model)
            prompt = await render_chat_prompt(service, body, body_bytes=exchange.body_bytes, must_fit=False)
        await exchange.send_json({**self._reply, "input_tokens": len(prompt.ids)})


count_message_tokens = TokenCountEndpoint(messages, CountTokensBody, _ANTHROPIC.parse_count_request, {})
count_response_tokens = TokenCountEndpoint(
    responses, ResponsesBody, responses.adapter.parse_request, {"object": "response.input_tokens"}
)
