"""Which rows train together: families of attacks apart from each other, or near-duplicates together."""

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from domain_head.groups import near_duplicates
from jailbreak_head.rows import Row

SAME_FAMILY = {
    "garak": "jailbreaks",
    "self_reminder": "jailbreaks",
    "gptfuzz": "jailbreaks",
    "ignore_previous_instructions": "override",
    "token_smuggling": "encoding",
    "output_formatting_manipulation": "encoding",
    "different_user_input_language": "other_language",
    "overload_with_information": "overload",
    "repeated_token_attack": "overload",
    "few_shot_attack": "few_shot",
    "many_shot_attack": "few_shot",
    "payload_splitting": "splitting",
    "hypothetical_scenario": "hypothetical",
    "mixed_techniques": "mixed",
}
"""Collections and variants that are one family: none of them trains what tells the others."""


def family_of(row: Row) -> str:
    """The family whose rows are left out together."""
    return SAME_FAMILY.get(row.family, row.family)


def by_family(rows: Sequence[Row], measured_only: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """A family of attacks is in one fold, harmless rows with their near-duplicates in any."""
    trained = sorted(
        {family_of(row) for row, only in zip(rows, measured_only, strict=True) if row.is_attack and not only}
    )
    fold_of = {family: at % count for at, family in enumerate(trained)}
    groups = near_duplicates([row.text for row in rows])
    return np.array(
        [
            fold_of.get(family_of(row), -1) if row.is_attack else zlib.crc32(group.encode()) % count
            for row, group in zip(rows, groups, strict=True)
        ]
    )


def by_group(rows: Sequence[Row], measured_only: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """Near-duplicates are in one fold."""
    groups = near_duplicates([row.text for row in rows])
    folds = np.array([zlib.crc32(group.encode()) % count for group in groups])
    return np.where(measured_only, -1, folds)
