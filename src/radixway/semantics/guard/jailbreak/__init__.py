"""Attacks on the prompt: their disguises, their wordings, and the readers that ask the encoder.

Who speaks matters: an order to the assistant is a user's right, and an attack in what a tool or a document
says.
"""

from radixway.semantics.guard.jailbreak.attack_judge import (
    NOTHING,
    THRESHOLD,
    DefaultAttackJudge,
    build_attack_judge,
    pattern_attacks_steps,
)
from radixway.semantics.guard.jailbreak.attack_reader import KINDS, Kind

__all__ = [
    "KINDS",
    "NOTHING",
    "THRESHOLD",
    "DefaultAttackJudge",
    "Kind",
    "build_attack_judge",
    "pattern_attacks_steps",
]
