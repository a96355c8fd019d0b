"""Attacks that several turns of a conversation make together: split, or built up step by step (Crescendo, 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from radixway.guard.jailbreak.finding import Findings, find
from radixway.guard.jailbreak.patterns import Hit, Pattern, Patterns

LAST_TURNS = 4
LONGEST = 4096
"""Characters of the last turns that are judged together."""

_BUILD_UP = (
    Pattern(
        "build_up",
        "adversarial_prompt",
        0.4,
        r"\b(?:now|good|great|perfect|nice|ok(?:ay)?|thanks|excellent|wonderful)\b…\b(?:more (?:detail\w*|specific\w*|explicit|extreme|realistic)|go (?:further|deeper)|"
        r"step by step|without (?:the )?(?:warnings?|disclaimers?|fiction)|for real|in reality|exact (?:steps|amounts|quantities)|actual (?:steps|"
        r"instructions|code)|drop the (?:story|fiction|act))\b",
    ),
    Pattern(
        "remember_the_game",
        "adversarial_prompt",
        0.5,
        r"\b(?:remember|as (?:we|you) agreed|you (?:agreed|promised|said you would)|stay in (?:the )?(?:role|character)|we are still|keep playing|still in)\b…"
        r"\b(?:role|character|game|rules|no (?:rules|limits|restrictions)|persona|unfiltered|story)\b",
    ),
    Pattern(
        "what_it_would_not_say",
        "adversarial_prompt",
        0.45,
        r"\b(?:you (?:refused|wouldn t|would not|didn t)|why won t you|don t be (?:shy|boring)|just this once|nobody will know|between (?:us|you and me)|"
        r"come on|it s only (?:fiction|a story|a game)|just (?:fiction|a story|a game))\b",
    ),
    Pattern(
        "zh_build_up",
        "adversarial_prompt",
        0.45,
        r"(?:很好|好的|继续|接着|现在)[^。\n]{0,12}(?:更(?:详细|具体|真实|露骨)|去掉(?:虚构|警告|免责)|现实中|具体步骤|真实(?:的)?步骤)|(?:只是|不过是)(?:小说|故事|游戏|虚构)|(?:我们)?说好了的|别忘了你的角色",
    ),
)


def last_turns(texts: Sequence[str]) -> str:
    """The last ones, as many as fit, joined as if they had been said at once."""
    kept: list[str] = []
    room = LONGEST
    for text in reversed(texts[-LAST_TURNS:]):
        if room <= 0:
            break
        kept.append(text[-room:])
        room -= len(text)
    return " ".join(reversed(kept))


def find_build_up(joined: str, texts: Sequence[str]) -> Findings:
    """Wordings across the turns' borders, and, from the third turn on, signs that turns lead somewhere."""
    found = find(joined)
    if len(texts) < 3:
        return found
    signs: dict[str, Hit] = {hit.name: hit for hit in _build_up().find(joined)}
    return Findings({**found.hits, **signs}, found.views)


@cache
def _build_up() -> Patterns:
    return Patterns(_BUILD_UP)
