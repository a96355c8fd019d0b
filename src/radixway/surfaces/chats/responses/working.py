"""Who answers responses: jobs of their queues go down the gateway's road, as chat completions."""

from __future__ import annotations

from typing import Any

from radixway.chat.attempt import Attempt
from radixway.chat.completions import Road
from radixway.chat.push import Refused
from radixway.chat.responses import Responses
from radixway.parsers import ReadPart, Text
from radixway.surfaces.chats.responses.hearing import as_event
from radixway.surfaces.chats.responses.shapes import as_failure, blocks_of
from radixway.surfaces.chats.responses.telling import conversation, request_of, say
from radixway.surfaces.wires.answer import Answer
from radixway.web import HttpError


def queue_of(model: str) -> str:
    """Where responses of a model wait."""
    return f"responses:{model}"


class ResponseCompletions:
    """Has responses answered by the gateway's workers."""

    def __init__(self, road: Road, responses: Responses) -> None:
        self._road = road
        self._responses = responses

    async def say(self, attempt: Attempt) -> dict[str, Any]:
        """See `chat.push.Say`."""
        kept = await self._responses.current(attempt.answer.id)
        if kept is None:
            raise Refused("the response was deleted", again=False)
        thread = attempt.thread[:-1]
        questions, answers = await self._responses.items_of([message.id for message in thread])
        told = conversation(thread, questions, answers)
        job = attempt.job
        request = request_of(job.attempt_id, job.user_id, kept.message.model or "", kept.request, told)
        answer = Answer()

        async def tell(part: ReadPart) -> None:
            answer.add(part)
            if isinstance(part, Text):
                await attempt.token(part.text)
            else:
                await attempt.tell(as_event(part))

        try:
            heard = await say(self._road, request, tell)
        except HttpError as error:
            await self._responses.keep_failure(job.message_id, as_failure(error))
            # Whoever waits for an answer is told at once; what goes on in the background is tried again.
            again = error.status >= 500 or (error.status == 429 and kept.background)
            raise Refused(error.sentence, again=again) from error
        finally:
            if answer.blocks:
                await self._responses.keep_output(job.message_id, job.attempt_id, blocks_of(answer))
        return {"usage": heard.usage, "finish_reason": heard.finish_reason}
