"""Streaming OpenAI's answers: one write for each step of the engine, usage at the end when asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import UNSET

from radixway.engine.request import RequestOutput
from radixway.engine.server.answers import GenerationGroup
from radixway.engine.server.exchange import HttpExchange
from radixway.engine.server.openai_replies import ChatChoice, CompletionReply, TextChoice, sum_usage
from radixway.web.server_sent_events import DONE_EVENT, write_event

encode = msgspec.json.Encoder().encode

ReplyChoices = Sequence[ChatChoice | TextChoice]


@dataclass(slots=True, frozen=True)
class ReplyHead:
    """What every object of one answer says about itself."""

    id: str
    object: str
    created: int
    model: str

    def make_reply(self, choices: ReplyChoices) -> CompletionReply:
        """An object with these choices."""
        return CompletionReply(
            id=self.id, object=self.object, created=self.created, model=self.model, choices=choices
        )


async def stream_choices(
    exchange: HttpExchange,
    head: ReplyHead,
    answers: GenerationGroup,
    chunks_of: Callable[[int, RequestOutput], Sequence[CompletionReply]],
    *,
    per_prompt: int,
    include_usage: bool,
) -> None:
    """Send what `chunks_of` (choice index, its next output) makes of each output, until all are finished."""
    last: dict[int, RequestOutput] = {}
    unfinished = len(answers)
    async for index, output in answers:
        last[index] = output
        events = b""
        for chunk in chunks_of(index, output):
            chunk.usage = None if include_usage else UNSET
            events += write_event(encode(chunk))
        if output.finish is not None:
            unfinished -= 1
            if not unfinished:
                if include_usage:
                    chunk = head.make_reply([])
                    chunk.usage = sum_usage([last[index] for index in sorted(last)], per_prompt)
                    events += write_event(encode(chunk))
                await exchange.end_events(events + DONE_EVENT)
                return
        if events:
            await exchange.send_events(events)
