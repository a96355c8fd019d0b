"""The replies of a chat completion: whole, and as the chunks of a stream."""

from msgspec import UNSET

from radixway.engine.request import RequestOutput
from radixway.engine.server.answers import GatheredOutput
from radixway.engine.server.chat_body import ChatCompletionBody
from radixway.engine.server.openai_replies import (
    ChatChoice,
    ChatMessage,
    CompletionReply,
    FunctionCall,
    ToolCall,
    finish_reason_name,
    make_chat_logprobs,
    make_prompt_logprobs,
    make_weight_metadata,
    stop_reason_of,
    sum_usage,
)
from radixway.engine.server.openai_stream import ReplyHead
from radixway.engine.server.service import EngineService
from radixway.parsers import AnswerFormat, AnswerTextReader, CallDelta, MessageDelta


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
        self._eos_token_ids = service.engine.model_info.eos_token_ids
        self._body = body
        self._head = head
        self._prompt_ids = prompt_ids
        self._reading = reading
        self._readers: dict[int, AnswerTextReader] = {}

    def make_completion(self, answers: list[GatheredOutput]) -> CompletionReply:
        """The reply with every answer as a message."""
        reply = self._head.make_reply(
            [self._make_message(index, answer) for index, answer in enumerate(answers)]
        )
        reply.usage = sum_usage(answers, len(answers))
        reply.prompt_token_ids = self._prompt_ids if self._body.return_token_ids else UNSET
        if (most := self._body.prompt_logprobs) is not None:
            reply.prompt_logprobs = make_prompt_logprobs(self._tokenizer, answers[0].prompt_logprobs, most)
        reply.metadata = make_weight_metadata(answers[0])
        return reply

    def make_chunks(self, index: int, output: RequestOutput) -> list[CompletionReply]:
        """The chunks for one output: the role first, then what is added to the message, if anything is."""
        chunks = []
        reader = self._readers.get(index)
        if reader is None:
            reader = self._readers[index] = self._reading.create_reader()
            role = ChatMessage(role="assistant", content="")
            chunks.append(self._head.make_reply([ChatChoice(index=index, delta=role, finish_reason=None)]))
            chunks[0].prompt_token_ids = self._prompt_ids if self._body.return_token_ids else UNSET
        delta = reader.read_delta(output.text, last=output.finish is not None)
        has_tokens = output.token_ids and (self._body.return_token_ids or self._body.logprobs)
        if delta or output.finish or has_tokens:
            choice = self._make_choice(index, output, reader)
            choice.delta = _delta_message(delta)
            chunks.append(self._head.make_reply([choice]))
        return chunks

    def _make_message(self, index: int, answer: GatheredOutput) -> ChatChoice:
        reader = self._reading.create_reader()
        delta = reader.read_delta(answer.text, last=True)
        choice = self._make_choice(index, answer, reader)
        choice.message = ChatMessage(
            role="assistant",
            content=None if delta.calls and not delta.content else delta.content,
            reasoning_content=delta.reasoning or UNSET,
            tool_calls=[_make_tool_call(call) for call in delta.calls] or UNSET,
        )
        return choice

    def _make_choice(
        self, index: int, part: GatheredOutput | RequestOutput, reader: AnswerTextReader
    ) -> ChatChoice:
        logprobs = make_chat_logprobs(self._tokenizer, part.logprobs) if self._body.logprobs else None
        reason = finish_reason_name(part.finish)
        return ChatChoice(
            index=index,
            logprobs=logprobs,
            finish_reason="tool_calls" if reason == "stop" and reader.has_tool_call else reason,
            stop_reason=stop_reason_of(part.finish, self._eos_token_ids),
            token_ids=part.token_ids if self._body.return_token_ids else UNSET,
        )


def _delta_message(delta: MessageDelta) -> ChatMessage:
    return ChatMessage(
        content=delta.content or UNSET,
        reasoning_content=delta.reasoning or UNSET,
        tool_calls=[_make_tool_call(call, in_stream=True) for call in delta.calls] or UNSET,
    )


def _make_tool_call(call: CallDelta, *, in_stream: bool = False) -> ToolCall:
    """A whole call, or what is added to one: its id, type and name come once."""
    first = call.name is not None
    return ToolCall(
        index=call.index if in_stream else UNSET,
        id=call.id if call.id is not None else UNSET,
        type="function" if first else UNSET,
        function=FunctionCall(name=call.name if call.name is not None else UNSET, arguments=call.arguments),
    )
