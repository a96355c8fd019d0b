"""The next turn's prompt, made of the tokens of the turns before it and of nothing else.

Rendering a whole conversation again after each turn gives other tokens than the sampler saw: templates drop
earlier thinking, rewrite tool calls, and put a newline behind the stop token that no model samples. So the
history stays the ids it is, and only new messages are rendered, behind stand-ins for the conversation so far
(see `template_probe`)::

    prompt ids | reply ids, sampled | appended ids
    …assistant\\n  It is 21°.<|im_end|>  \\n<|im_start|>user\\nAnd now?<|im_end|>\\n<|im_start|>assistant\\n
                                       [ boundary )[ new messages and generation prompt              )
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xxhash import xxh3_128_digest

from radixway.core.tokenizer.chat_template import Message
from radixway.core.tokenizer.messages import (
    has_developer_role,
    has_image_parts,
    render_chat,
    to_template_messages,
)
from radixway.core.tokenizer.piecewise import SpecialTokenSplitter
from radixway.core.tokenizer.template_probe import (
    CannotContinueError,
    TemplateProbe,
    TurnEnding,
    common_length,
    role_stand_ins,
    stand_in_messages,
    text_after_mark,
    tool_calls_of,
    unused_mark,
)
from radixway.core.tokenizer.tokenizer import Tokenizer

_MAX_CACHED_ENDINGS = 512


@dataclass(frozen=True, slots=True)
class TurnContinuation:
    """Ids to put after a prompt and its sampled reply. No model sampled any of them: loss mask 0."""

    ids: list[int]
    boundary: int
    """So many of the first ids only end the reply's turn (a newline, a stop token it did not reach); the
    others are the new messages and the generation prompt."""
    deviations: tuple[str, ...] = ()
    """Differences of earlier ids from the template, in words."""


class TurnRenderer:
    """Opens and continues conversations for one tokenizer; remembers what it learnt of the chat template.

    Of images prompts have the template's placeholders.

    `continuation` blocks as long as tokenizing the new messages takes. Safe to use from several threads.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._cuts = SpecialTokenSplitter(tokenizer.backend)
        self._stops = {tokenizer.backend.id_to_token(token_id) for token_id in tokenizer.eos_token_ids}
        self._endings: dict[bytes, TurnEnding | str] = {}

    def opening(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Return the template's prompt for all `messages`. Raises TemplateError, which names the field."""
        text = render_chat(self._tokenizer, messages, tools=tools, arguments=arguments, takes_images=True)
        return self._tokenizer.encode(text, add_special_tokens=False)

    def continuation(
        self,
        reply_ids: Sequence[int],
        new_messages: Sequence[Message],
        *,
        history: Sequence[Message],
        tools: Sequence[dict[str, Any]] | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> TurnContinuation:
        """The ids that show `new_messages` and a generation prompt to a model that has sampled `reply_ids`.

        `history` are the messages before the new ones, the last of them the answer that `reply_ids` became.
        They are not rendered; the role of the first and the calls of the last tell what stands in for them.
        `tools` and `arguments` must be those of the prompt that the reply was sampled from.
        Raises CannotContinueError, also for messages that the template refuses: `opening` says which.
        """
        if not history or history[-1].get("role") != "assistant" or not new_messages:
            raise CannotContinueError("a conversation goes on with new messages after an answer")
        probe = TemplateProbe(self._tokenizer, tools, arguments)
        try:
            mark = unused_mark(new_messages, history[0], history[-1], tools, arguments)
            new = to_template_messages(
                new_messages,
                knows_developer=has_developer_role(self._tokenizer),
                takes_images=has_image_parts(self._tokenizer),
            )
            ending = self._cached_ending(probe, history, role_stand_ins(new), mark)
            head = stand_in_messages(history, mark, arguments_as_text=ending.arguments_as_text)
            tail = text_after_mark(probe.render([*head, *new]), mark)
            return self._append_missing(reply_ids, tail, ending, has_calls=bool(tool_calls_of(history[-1])))
        except CannotContinueError:
            raise
        except (ValueError, RecursionError) as error:  # TemplateError, text that is not valid Unicode
            raise CannotContinueError(str(error)) from error

    def _cached_ending(
        self, probe: TemplateProbe, history: Sequence[Message], roles: Sequence[Message], mark: str
    ) -> TurnEnding:
        """Return how the template ends such an answer, cached by shape."""
        shape = (
            probe.tools,
            probe.arguments,
            history[0].get("role"),
            min(len(tool_calls_of(history[-1])), 2),
            [message["role"] for message in roles],
        )
        key = xxh3_128_digest(json.dumps(shape, sort_keys=True, default=repr).encode())
        known = self._endings.get(key)
        if known is None:
            try:
                known = probe.find_ending(history, roles, mark)
            except CannotContinueError as refusal:
                known = str(refusal)
            if len(self._endings) >= _MAX_CACHED_ENDINGS:
                self._endings.clear()
            self._endings[key] = known
        if isinstance(known, str):
            raise CannotContinueError(known)
        return known

    def _append_missing(
        self, reply_ids: Sequence[int], tail: str, ending: TurnEnding, *, has_calls: bool
    ) -> TurnContinuation:
        """Return what of `tail` is missing after `reply_ids`, which may end anywhere in the turn's end."""
        start, end = self._turn_end(tail, ending.closing, has_calls=has_calls)
        deviations = [f"{ending.dropped!r} before the answer"] if ending.dropped else []
        if not has_calls and start:
            deviations.append(f"no {tail[:start]!r} after the answer")
        ids = self._tokenizer.encode(tail[start:], add_special_tokens=False)
        boundary = common_length(ids, self._tokenizer.encode(tail[start:end], add_special_tokens=False))
        there, deviation = self._sampled_end(reply_ids, ids[: max(boundary, 1)], ending.closing)
        deviations += [deviation] if deviation else []
        return TurnContinuation(ids[there:], max(boundary - there, 0), tuple(deviations))

    def _turn_end(self, tail: str, closing: str, *, has_calls: bool) -> tuple[int, int]:
        """Where in `tail` the turn's first ending token begins, and where the new messages begin.

        That token is one in front of which a text may be cut, so that what follows is tokenized as within
        the whole. After a call it is the first stop token, for the call's own syntax comes before it.
        """
        specials = self._cuts.find_special_tokens(tail)
        messages_at = len(closing) if tail.startswith(closing) else None
        if has_calls:
            specials = self._ends_of_calls(specials, closing, messages_at)
        elif specials and tail[: specials[0][0]].strip():
            specials = []
        if not specials:
            raise CannotContinueError("no special token ends an answer in this chat template")
        start, token = specials[0]
        if messages_at is None:
            rest = tail[start + len(token) :]
            messages_at = len(tail) - len(rest.lstrip())
        return start, max(start, messages_at)

    def _ends_of_calls(
        self, specials: list[tuple[int, str]], closing: str, messages_at: int | None
    ) -> list[tuple[int, str]]:
        """Return the special tokens after a call's arguments that may end the turn, in order: the model's
        stop tokens, else the token that `closing` ends in, else the one that new messages begin with.
        """
        if messages_at is None:
            return [special for special in specials if special[1] in self._stops]
        ending = [special for special in specials if special[0] < messages_at]
        after = specials[len(ending) : len(ending) + 1]
        stops = [special for special in [*ending, *after] if special[1] in self._stops]
        return stops or (ending[-1:] if _ends_closing(ending, closing) else after)

    def _sampled_end(
        self, reply_ids: Sequence[int], turn_end: list[int], closing: str
    ) -> tuple[int, str | None]:
        """How many ids of `turn_end` the reply has sampled, and how that deviates from the template."""
        for length in range(min(len(turn_end), len(reply_ids)), 0, -1):
            if list(reply_ids[-length:]) == turn_end[:length]:
                return length, None
        if not reply_ids or (last := reply_ids[-1]) not in self._tokenizer.eos_token_ids:
            return 0, None
        stop = self._tokenizer.backend.id_to_token(last)
        if last in turn_end:
            return turn_end.index(last) + 1, f"{stop!r} alone after the answer"
        if stop and closing.lstrip().startswith(stop):
            return 1, f"{stop!r} where later turns show {self._tokenizer.piece(turn_end[0])!r}"
        raise CannotContinueError(
            f"the reply ended with {stop!r}, which the chat template does not show there"
        )


def _ends_closing(specials: list[tuple[int, str]], closing: str) -> bool:
    """Is the last of these tokens the end of `closing`, white space aside?"""
    return bool(specials) and not closing[specials[-1][0] + len(specials[-1][1]) :].strip()
