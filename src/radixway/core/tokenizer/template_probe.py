"""Finds out what a chat template does with the end of an answer and with what comes after it.

The template renders small conversations of stand-in messages, one of which, the answer, is a mark that can be
found again::

    <|im_start|>user\\nuser<|im_end|>\\n<|im_start|>assistant\\nMARK<|im_end|>\\n<|im_start|>user\\n…
    [ shown: the same before and after )[ answer's opening )     [ closing  )
                                                                 [ tail …
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from radixway.core.tokenizer.chat_template import Message, TemplateError
from radixway.core.tokenizer.tokenizer import Tokenizer

THINKING = {
    "<think>": "</think>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "<|channel>thought": "<channel|>",
}
"""How model families open and close a block of thinking, which templates drop from earlier answers."""

_EMPTY_THINKING = re.compile("|".join(rf"{re.escape(a)}\s*{re.escape(b)}\s*" for a, b in THINKING.items()))
_CALL_ID = "call00000"  # nine letters and digits: Mistral's templates refuse anything else
_EARLIER = "earlier"


class CannotContinueError(ValueError):
    """A prompt cannot go on from these tokens, the text says why: render the whole as a new branch."""


@dataclass(frozen=True, slots=True)
class TurnEnding:
    """How a template ends an answer after which a conversation goes on, wherever that happens."""

    closing: str
    """What the template writes after a final answer; after a call, from its last argument on."""
    dropped: str
    """What opens an answer but is left out of earlier ones: a block of reasoning."""
    arguments_as_text: bool
    """The template takes a call's arguments as JSON text, not as an object."""


@dataclass(frozen=True, slots=True)
class TemplateProbe:
    """Renders for one tokenizer, one set of tools and one set of template arguments."""

    tokenizer: Tokenizer
    tools: Sequence[dict[str, Any]] | None
    arguments: Mapping[str, Any] | None

    def render(self, messages: Sequence[Message], *, prompting: bool = True) -> str:
        return self.tokenizer.render(
            messages, tools=self.tools, add_generation_prompt=prompting, arguments=self.arguments
        )

    def find_ending(self, history: Sequence[Message], roles: Sequence[Message], mark: str) -> TurnEnding:
        """The ending of `history`'s last message, before new messages like `roles`, stand-ins too.

        Raises CannotContinueError where the template shows messages otherwise once others follow, or new ones
        otherwise later in a conversation, TemplateError where it refuses the messages.
        """
        try:
            return self._probe_ending(history, roles, mark, arguments_as_text=False)
        except TemplateError:
            if not tool_calls_of(history[-1]):
                raise
            return self._probe_ending(history, roles, mark, arguments_as_text=True)

    def _probe_ending(
        self, history: Sequence[Message], roles: Sequence[Message], mark: str, *, arguments_as_text: bool
    ) -> TurnEnding:
        first = stand_in_messages(history, mark, arguments_as_text=arguments_as_text)
        earlier = _as_earlier_turn(first[-1], mark)
        later = [*first[:-1], *earlier, first[-1]]
        dropped, tail = self._compare_renderings(first, roles, mark)
        dropped_later, tail_later = self._compare_renderings(later, roles, mark)
        if tail != tail_later or dropped != dropped_later:
            raise CannotContinueError(
                "the chat template shows new messages otherwise later in a conversation"
            )
        closing = text_after_mark(self.render(first, prompting=False), mark)
        return TurnEnding(closing, dropped, arguments_as_text)

    def _compare_renderings(
        self, head: list[Message], roles: Sequence[Message], mark: str
    ) -> tuple[str, str]:
        """Return what of the generation prompt is dropped, and what follows the answer."""
        prompt = self.render(head[:-1])
        shown = prompt[: common_length(prompt, self.render(head[:-1], prompting=False))]
        rendered = self.render([*head, *roles])
        still_shown = shown if rendered.startswith(shown) else _EMPTY_THINKING.sub("", shown)
        if not rendered.startswith(still_shown):
            raise CannotContinueError("the chat template shows earlier messages otherwise once others follow")
        opened = rendered[len(still_shown) : rendered.find(mark)]
        return _dropped_prompt_end(prompt[len(shown) :], opened), text_after_mark(rendered, mark)


def stand_in_messages(history: Sequence[Message], mark: str, *, arguments_as_text: bool) -> list[Message]:
    """A shortest conversation that begins and ends as `history` does: system message, question, answer."""
    first, reply = history[0], history[-1]
    system: list[Message] = []
    if (role := first.get("role")) in ("system", "developer"):
        system.append({"role": role, "content": "system"})
    answer: Message = {"role": "assistant", "content": mark}
    if calls := tool_calls_of(reply):
        arguments: Any = {mark: mark}
        text = json.dumps(arguments) if arguments_as_text else arguments
        answer = {
            "role": "assistant",
            "content": "",
            "tool_calls": [_stand_in_call(call, text) for call in calls],
        }
    return [*system, {"role": "user", "content": "user"}, answer]


def tool_calls_of(message: Message) -> list[dict[str, Any]]:
    """A message's tool calls, as far as they are objects."""
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def role_stand_ins(messages: Sequence[Message]) -> list[Message]:
    """`messages` with other contents; of a run of one role's the first two."""
    chosen: list[Message] = []
    for message in messages:
        if [other["role"] for other in chosen[-2:]] != [message["role"]] * 2:
            chosen.append(message if tool_calls_of(message) else {**message, "content": f"new{len(chosen)}"})
    return chosen


def unused_mark(*values: Any) -> str:
    """A word that occurs in none of `values`."""
    text = repr(values)
    return next(mark for number in count() if (mark := f"answer{number}x") not in text)


def common_length(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the number of elements that `one` and `other` both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def text_after_mark(text: str, mark: str) -> str:
    """Return the text behind the last `mark`. Raises CannotContinueError where there is none."""
    at = text.rfind(mark)
    if at < 0:
        raise CannotContinueError("the chat template does not show the answer")
    return text[at + len(mark) :]


def _dropped_prompt_end(generation_prompt: str, opened: str) -> str:
    """The end of `generation_prompt` that an answer opened as `opened` no longer shows."""
    same = common_length(generation_prompt, opened)
    if same == len(generation_prompt):
        return ""
    thinking_at = next((at for opener in THINKING if (at := generation_prompt.find(opener)) >= 0), -1)
    if not 0 <= thinking_at <= same:
        rest = generation_prompt[same:]
        raise CannotContinueError(f"the chat template shows an answer without {rest!r} that came before it")
    return generation_prompt[thinking_at:]


def _stand_in_call(call: dict[str, Any], arguments: Any) -> dict[str, Any]:
    function = call.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    function = {"name": name if isinstance(name, str) else "tool", "arguments": arguments}
    return {"id": call.get("id") or _CALL_ID, "type": "function", "function": function}


def _as_earlier_turn(answer: Message, mark: str) -> list[Message]:
    """Return an answer like this one, and what may follow it before the next."""
    earlier: Message = json.loads(json.dumps(answer).replace(mark, _EARLIER))
    if calls := tool_calls_of(earlier):
        return [earlier, *(_stand_in_result(call) for call in calls)]
    return [earlier, {"role": "user", "content": _EARLIER}]


def _stand_in_result(call: dict[str, Any]) -> Message:
    name = call["function"]["name"]
    return {"role": "tool", "content": _EARLIER, "tool_call_id": call["id"], "name": name}
