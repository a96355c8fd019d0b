"""Builds a call's prompt: the exact tokens of a known history and what is new, or all of it tokenized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from radixway.core.chat_images import list_image_urls
from radixway.trajectories.sessions.call import Message, SessionCall
from radixway.trajectories.sessions.history_match import CallRequest, KnownHistory

if TYPE_CHECKING:
    from radixway.core.tokenizer import Tokenizer

_EXPANDED = "images are placeholders here: the worker puts tokens of its own in their place"


@dataclass(slots=True)
class SessionPrompt:
    """The tokens to put behind a parent's path, or, without a parent, the whole prompt."""

    parent: SessionCall | None
    ids: list[int]
    messages: list[Message]
    """Messages that the call adds to its parent's history."""
    resumes: bool = False
    deviations: tuple[str, ...] = ()
    prefix: Message | None = None
    """The beginning of the answer, which the client gave: its last message."""


class PromptBuilder:
    """Makes prompts for one tokenizer. Blocks while it tokenizes; safe to use from several threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        from radixway.core.tokenizer import TurnRenderer

        self._tokenizer = tokenizer
        self._turns = TurnRenderer(tokenizer)

    @property
    def token_bytes(self) -> Mapping[int, bytes]:
        """The bytes that each token stands for."""
        return self._tokenizer.token_bytes

    def build_prompt(
        self, wanted: CallRequest, known: KnownHistory, reply_ids: Sequence[int]
    ) -> SessionPrompt:
        """The prompt for `wanted`, of which `known` is known; `reply_ids` are the sampled ids of that call.

        Raises TemplateError, and ValueError for a plain prompt that makes no tokens.
        """
        if wanted.prompt is not None:
            return self._completion_prompt(wanted.prompt, known, reply_ids)
        prompt = self._chat_prompt(wanted, known, reply_ids)
        if list_image_urls(prompt.messages):
            prompt.deviations += (_EXPANDED,)
        return prompt

    def prompt_ending(self, ids: Sequence[int]) -> str:
        """The text of the last tokens of a prompt, special ones included."""
        return self._tokenizer.decode(ids[-32:], skip_special_tokens=False)

    def _chat_prompt(
        self, wanted: CallRequest, known: KnownHistory, reply_ids: Sequence[int]
    ) -> SessionPrompt:
        from radixway.core.tokenizer import CannotContinueError

        call, new = known.call, list(wanted.messages[known.upto :])
        if call is None:
            return self._full_prompt(wanted)
        if not new:
            return self._continued_prompt(wanted, call)
        if wanted.continues:
            return self._full_prompt(wanted, "the conversation ends in the middle of an answer")
        history = list(wanted.messages[: known.upto])
        try:
            appended = self._turns.continuation(
                reply_ids,
                new,
                history=[*history[:-1], call.answer],
                tools=wanted.tools,
                arguments=wanted.arguments,
            )
        except CannotContinueError as refusal:
            return self._full_prompt(wanted, str(refusal))
        return SessionPrompt(call, appended.ids, new, deviations=appended.deviations)

    def _continued_prompt(self, wanted: CallRequest, call: SessionCall) -> SessionPrompt:
        """Return the known prompt with the last answer, which is to continue."""
        if call.finish != "stop" and not call.answer.get("tool_calls"):
            return SessionPrompt(call, [], [], resumes=True)
        return self._full_prompt(wanted, "the conversation ends with an answer that was complete")

    def _full_prompt(self, wanted: CallRequest, why: str | None = None) -> SessionPrompt:
        """Return the whole conversation as the template renders it; `why`: although part of it is known."""
        deviations = () if why is None else (f"known turns were rendered again: {why}",)
        messages = list(wanted.messages)
        if not wanted.continues:
            ids = self._turns.opening(messages, tools=wanted.tools, arguments=wanted.arguments)
            return SessionPrompt(None, ids, messages, deviations=deviations)
        from radixway.core.tokenizer import render_chat

        text = render_chat(
            self._tokenizer,
            messages,
            tools=wanted.tools,
            continue_final_message=True,
            arguments=wanted.arguments,
            takes_images=True,
        )
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        return SessionPrompt(None, ids, messages[:-1], deviations=deviations, prefix=messages[-1])

    def _completion_prompt(
        self, prompt: str | Sequence[int], known: KnownHistory, reply_ids: Sequence[int]
    ) -> SessionPrompt:
        if not isinstance(prompt, str):
            rest = list(prompt[known.upto :])
            shown = self._tokenizer.decode(rest, skip_special_tokens=False)
            return SessionPrompt(known.call, rest, [_visible_message(shown)])
        if known.call is not None:
            ids = self._tokenize_rest(prompt[known.upto :], reply_ids)
            if ids is not None:
                return SessionPrompt(known.call, ids, [_visible_message(prompt[known.upto :])])
        ids = self._tokenizer.encode(prompt)
        if not ids:
            raise ValueError("prompt: there is nothing in it")
        why = "known text was tokenized again: its tokens do not end there"
        deviations = () if known.call is None else (why,)
        return SessionPrompt(None, ids, [_visible_message(prompt)], deviations=deviations)

    def _tokenize_rest(self, rest: str, reply_ids: Sequence[int]) -> list[int] | None:
        """Tokenize the text after a completion; None if its tokens do not end with the text."""
        ids = self._tokenizer.encode(rest, add_special_tokens=False)
        last = reply_ids[-1] if reply_ids else None
        if last in self._tokenizer.special_ids or last in self._tokenizer.eos_token_ids:
            return ids[1:] if ids[:1] == [last] else None
        return ids


def _visible_message(text: str) -> Message:
    return {"role": "prompt", "content": text}


def merge_messages(first: Message, second: Message) -> Message:
    """Merge `first` and `second`, two parts of one answer."""
    merged: dict[str, Any] = {**second, "role": "assistant"}
    content = message_text(first.get("content")) + message_text(second.get("content"))
    merged["content"] = content or second.get("content")
    reasoning = message_text(first.get("reasoning_content")) + message_text(second.get("reasoning_content"))
    if reasoning:
        merged["reasoning_content"] = reasoning
    return merged


def message_text(content: Any) -> str:
    """The text of a content: a string, or parts."""
    if isinstance(content, list):
        return "".join(message_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
