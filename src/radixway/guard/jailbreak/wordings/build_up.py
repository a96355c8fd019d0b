"""What is said where one turn leads to the next: none of it is telling alone."""

from __future__ import annotations

from radixway.guard.jailbreak.patterns import Pattern

BUILD_UP = (
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
