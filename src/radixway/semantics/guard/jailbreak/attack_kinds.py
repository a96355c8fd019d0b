"""What attacks on the prompt are told apart by."""

from __future__ import annotations

from typing import Literal, get_args

Kind = Literal["prompt_injection", "instruction_override", "adversarial_prompt", "social_engineering"]
"""`prompt_injection`: words that pose as the system's, orders hidden in data, questions for secrets.
`instruction_override`: the instructions given shall not hold. `adversarial_prompt`: a persona, a game or an
encoding that shall get around them. `social_engineering`: authority, pity, reward or threat."""

KINDS: tuple[Kind, ...] = get_args(Kind)
