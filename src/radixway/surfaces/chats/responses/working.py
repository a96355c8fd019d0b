"""Who answers responses: jobs of their queues go down the gateway's road, as chat completions."""

from __future__ import annotations

from typing import Any

from radixway.chat.attempt import AnswerAttempt
from radixway.chat.completions import PipelineCall
from radixway.chat.push import CompletionRefusedError
from radixway.chat.responses import ResponseStore
from radixway.parsers import ReadPart, TextPart
from radixway.surfaces.chats.responses.hearing import encode_part
from radixway.surfaces.chats.responses.shapes import answer_to_blocks, failure_fields
from radixway.surfaces.chats.responses.telling import (
    build_worker_request,
    conversation_messages,
    send_worker_request,
)
from radixway.surfaces.wires.answer import GeneratedAnswer
from radixway.web import HttpError


def response_queue(model: str) -> str:
    """Where responses of a model wait."""
    return f"responses:{model}"


class ResponseCompletions:
    """Has responses answered by the gateway's workers."""

    def __init__(self, road: PipelineCall, responses: ResponseStore) -> None:
        self._road = road
        self._responses = responses

    async def complete_attempt(self, attempt: AnswerAttempt) -> dict[str, Any]:
        """See `chat.push.Say`."""
        kept = await self._responses.get_response(attempt.answer.id)
        if kept is None:
            raise CompletionRefusedError("the response was deleted", again=False)
        thread = attempt.thread[:-1]
        questions, answers = await self._responses.load_items([message.id for message in thread])
        told = conversation_messages(thread, questions, answers)
        job = attempt.job
        request = build_worker_request(
            job.attempt_id, job.user_id, kept.message.model or "", kept.request, told
        )
        answer = GeneratedAnswer()

        async def tell(part: ReadPart) -> None:
            answer.add_part(part)
            if isinstance(part, TextPart):
                await attempt.send_text(part.text)
            else:
                await attempt.send_event(encode_part(part))

        try:
            heard = await send_worker_request(self._road, request, tell)
        except HttpError as error:
            await self._responses.save_failure(job.message_id, failure_fields(error))
            # Whoever waits for an answer is told at once; what goes on in the background is tried again.
            again = error.status >= 500 or (error.status == 429 and kept.background)
            raise CompletionRefusedError(error.client_message, again=again) from error
        finally:
            if answer.blocks:
                await self._responses.save_output(job.message_id, job.attempt_id, answer_to_blocks(answer))
        return {"usage": heard.usage, "finish_reason": heard.finish_reason}
