"""What a call's prompt is made of: the exact tokens of a known history and what is new, or all of it anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from radixway.trajectories.sessions.call import Call, Message
from radixway.trajectories.sessions.matching import Known, Wanted

if TYPE_CHECKING:
    from radixway.tokenizer import Tokenizer


@dataclass(slots=True)
class Prompt:
    """What to put behind a parent's path, or, without a parent, the whole prompt."""

    parent: Call | None
    ids: list[int]
    messages: list[Message]
    """What the call adds to its parent's history."""
    resumes: bool = False
    deviations: tuple[str, ...] = ()
    prefix: Message | None = None
    """The beginning of the answer, which the client gave: its last message."""


class Prompting:
    """Makes prompts for one tokenizer. Blocks while it tokenizes; safe to use from several threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        from radixway.tokenizer import TurnRenderer

        self._tokenizer = tokenizer
        self._turns = TurnRenderer(tokenizer)

    @property
    def token_bytes(self) -> Mapping[int, bytes]:
        """What each token stands for."""
        return self._tokenizer.token_bytes

    def make(self, wanted: Wanted, known: Known, reply_ids: Sequence[int]) -> Prompt:
        """The prompt for `wanted`, of which `known` is known; `reply_ids` are the sampled ids of that call.

        Raises TemplateError, and ValueError for a plain prompt that makes no tokens.
        """
        if wanted.prompt is not None:
            return self._plain(wanted.prompt, known, reply_ids)
        return self._chat(wanted, known, reply_ids)

    def ending(self, ids: Sequence[int]) -> str:
        """The text of the last tokens of a prompt, special ones included."""
        return self._tokenizer.decode(ids[-32:], skip_special_tokens=False)

    def _chat(self, wanted: Wanted, known: Known, reply_ids: Sequence[int]) -> Prompt:
        from radixway.tokenizer import CannotContinue

        call, new = known.call, list(wanted.messages[known.upto :])
        if call is None:
            return self._opening(wanted)
        if not new:
            return self._after_all(wanted, call)
        if wanted.continues:
            return self._opening(wanted, "the conversation ends in the middle of an answer")
        history = list(wanted.messages[: known.upto])
        try:
            appended = self._turns.continuation(
                reply_ids,
                new,
                history=[*history[:-1], call.answer],
                tools=wanted.tools,
                arguments=wanted.arguments,
            )
        except CannotContinue as refusal:
            return self._opening(wanted, str(refusal))
        return Prompt(call, appended.ids, new, deviations=appended.deviations)

    def _after_all(self, wanted: Wanted, call: Call) -> Prompt:
        """Everything is known, the last answer too: more of it is wanted."""
        if call.finish != "stop" and not call.answer.get("tool_calls"):
            return Prompt(call, [], [], resumes=True)
        return self._opening(wanted, "the conversation ends with an answer that was complete")

    def _opening(self, wanted: Wanted, why: str | None = None) -> Prompt:
        """The whole conversation, rendered by the template; `why`, although part of it is known."""
        deviations = () if why is None else (f"known turns were rendered anew: {why}",)
        messages = list(wanted.messages)
        if not wanted.continues:
            ids = self._turns.opening(messages, tools=wanted.tools, arguments=wanted.arguments)
            return Prompt(None, ids, messages, deviations=deviations)
        from radixway.tokenizer import render_chat

        text = render_chat(
            self._tokenizer,
            messages,
            tools=wanted.tools,
            continue_final_message=True,
            arguments=wanted.arguments,
        )
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        return Prompt(None, ids, messages[:-1], deviations=deviations, prefix=messages[-1])

    def _plain(self, prompt: str | Sequence[int], known: Known, reply_ids: Sequence[int]) -> Prompt:
        if not isinstance(prompt, str):
            rest = list(prompt[known.upto :])
            shown = self._tokenizer.decode(rest, skip_special_tokens=False)
            return Prompt(known.call, rest, [_shown(shown)])
        if known.call is not None:
            ids = self._behind(prompt[known.upto :], reply_ids)
            if ids is not None:
                return Prompt(known.call, ids, [_shown(prompt[known.upto :])])
        ids = self._tokenizer.encode(prompt)
        if not ids:
            raise ValueError("prompt: there is nothing in it")
        deviations = (
            () if known.call is None else ("known text was tokenized anew: its tokens do not end there",)
        )
        return Prompt(None, ids, [_shown(prompt)], deviations=deviations)

    def _behind(self, rest: str, reply_ids: Sequence[int]) -> list[int] | None:
        """The ids of a text behind a completion; None if its tokens do not end where its text does.

        A stop token that the text of the completion left out must be what `rest` begins with.
        """
        ids = self._tokenizer.encode(rest, add_special_tokens=False)
        last = reply_ids[-1] if reply_ids else None
        if last in self._tokenizer.special_ids or last in self._tokenizer.eos_token_ids:
            return ids[1:] if ids[:1] == [last] else None
        return ids


def _shown(text: str) -> Message:
    return {"role": "prompt", "content": text}


def merged(first: Message, second: Message) -> Message:
    """One answer of two parts."""
    whole: dict[str, Any] = {**second, "role": "assistant"}
    content = (text_of(first.get("content")) + text_of(second.get("content"))) or second.get("content")
    whole["content"] = content
    if reasoning := text_of(first.get("reasoning_content")) + text_of(second.get("reasoning_content")):
        whole["reasoning_content"] = reasoning
    return whole


def text_of(content: Any) -> str:
    """The text of a content: a string, or parts."""
    if isinstance(content, list):
        return "".join(text_of(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
