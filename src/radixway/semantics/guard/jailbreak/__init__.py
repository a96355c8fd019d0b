"""Attacks on the prompt: what disguises them, how they are worded, what the encoder makes of them.

Who speaks matters: an order to the assistant is a user's right, and an attack in what a tool or a document
says.
"""

from radixway.semantics.guard.jailbreak.attack_judge import (
    NOTHING,
    THRESHOLD,
    DefaultAttackJudge,
    pattern_attacks_steps,
)
from radixway.semantics.guard.jailbreak.attack_kinds import KINDS, Kind
from radixway.semantics.guard.jailbreak.judge_factory import build_attack_judge

__all__ = [
    "KINDS",
    "NOTHING",
    "THRESHOLD",
    "DefaultAttackJudge",
    "Kind",
    "build_attack_judge",
    "pattern_attacks_steps",
]
