"""Five ways in which programs ask a model, each with much in common between its requests.

A workload is a list of `Ask`s that are there from the beginning; an answer may lead to more of them. The
shapes are those for which figures are published (docs/engine.md); every token is random but for a seed, so
that nothing is shared but what is meant to be.

    multi_turn       8 chats of 6 turns, a system prompt of 256 for all; 64 asked, 32 answered per turn
    few_shot         5 examples of 160 for all, 32 questions of 48; 24 answered
    same_prompt      one prompt of 1,024, 32 times; 16 answered
    tree_of_thought  a question of 400; 3 thoughts of 24 on every thought, 3 deep, an instruction of 16 each
    shared_2000      2,000 for all, 100 requests of 100 more; 1 answered
    nothing_shared   32 prompts of 512 with nothing in common; 16 answered
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

PUBLISHED = ("multi_turn", "few_shot", "same_prompt", "tree_of_thought", "shared_2000")


@dataclass(slots=True)
class Ask:
    """One request: token ids in, `max_tokens` out, and what is asked next once they are there."""

    prompt: list[int]
    max_tokens: int
    then: Callable[[Sequence[int]], list[Ask]] = lambda answer: []


def workload(name: str, vocabulary: int, *, requests: int | None = None, seed: int = 0) -> list[Ask]:
    """The first asks of the workload `name`. `requests`: another number of them, where all are alike."""
    draw = random.Random(f"{name} {seed}")

    def text(length: int) -> list[int]:
        return [draw.randrange(5, vocabulary) for _ in range(length)]

    if name == "multi_turn":
        system = text(256)
        return [_chat(system, [text(64) for _ in range(6)]) for _ in range(requests or 8)]
    if name == "tree_of_thought":
        return _thoughts(text(400), lambda: text(16), depth=3)
    shared, own, count, answer = {
        "few_shot": (5 * 160, 48, 32, 24),
        "same_prompt": (1024, 0, 32, 16),
        "shared_2000": (2000, 100, 100, 1),
        "nothing_shared": (0, 512, 32, 16),
    }[name]
    common = text(shared)
    return [Ask(common + text(own), answer) for _ in range(requests or count)]


def _chat(history: list[int], turns: list[list[int]]) -> Ask:
    prompt = history + turns[0]

    def reply(answer: Sequence[int]) -> list[Ask]:
        return [_chat([*prompt, *answer], turns[1:])] if turns[1:] else []

    return Ask(prompt, 32, reply)


def _thoughts(path: list[int], instruction: Callable[[], list[int]], depth: int) -> list[Ask]:
    """Three thoughts that continue `path`, and all that continue them."""

    def branch(prompt: list[int]) -> Ask:
        def deeper(thought: Sequence[int]) -> list[Ask]:
            return _thoughts([*prompt, *thought], instruction, depth - 1) if depth > 1 else []

        return Ask(prompt, 24, deeper)

    return [branch(path + instruction()) for _ in range(3)]


class Limit:
    """How many prompt tokens a cache that never forgets could have had, in whole pages, and how many came.

    Told of everything in order: what is asked at the same time is computed once, an answer is there (but for
    its last token, whose KV nobody has computed) once it has ended.
    """

    def __init__(self, page_size: int) -> None:
        self._page = page_size
        self._known: set[int] = set()
        self.prompt_tokens = self.cached_tokens = 0

    def asked(self, prompt: Sequence[int]) -> None:
        """Count `prompt`. Its last token is always computed, for its logits."""
        pages = self._pages(prompt)
        hits = next((n for n, page in enumerate(pages) if page not in self._known), len(pages))
        self._known.update(pages)
        self.prompt_tokens += len(prompt)
        self.cached_tokens += min(hits, (len(prompt) - 1) // self._page) * self._page

    def answered(self, prompt: Sequence[int], answer: Sequence[int]) -> None:
        """From now on others may begin with it."""
        self._known.update(self._pages([*prompt, *answer[:-1]]))

    @property
    def hit_rate(self) -> float:
        return self.cached_tokens / self.prompt_tokens

    @property
    def ratio(self) -> float:
        """Prompt tokens to compute without a cache, over those with: what reuse could at most save."""
        return self.prompt_tokens / (self.prompt_tokens - self.cached_tokens)

    def _pages(self, tokens: Sequence[int]) -> list[int]:
        """One hash per full page, of all tokens up to its end."""
        hashes, before = [], 0
        for at in range(self._page, len(tokens) + 1, self._page):
            before = hash((before, *tokens[at - self._page : at]))
            hashes.append(before)
        return hashes
