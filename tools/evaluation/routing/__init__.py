"""What routing is worth, on tables of which model answered which question rightly.

`evaluate_pool`: among models of like size, the best one for each question; `evaluate_tiers`: a weak and a
strong model, and when the strong one is called. Synchronous, and seeded: the same rows give the same figures.
"""

from evaluation.routing.models import POOLS
from evaluation.routing.pools import PoolFigures, Routed, evaluate_pool, pools_of
from evaluation.routing.readings import Readings, read_questions
from evaluation.routing.tables import SAMPLE, Table, near_duplicates, read_tables
from evaluation.routing.tiers import TierFigures, evaluate_tiers, tiers_of

__all__ = [
    "POOLS",
    "SAMPLE",
    "PoolFigures",
    "Readings",
    "Routed",
    "Table",
    "TierFigures",
    "evaluate_pool",
    "evaluate_tiers",
    "near_duplicates",
    "pools_of",
    "read_questions",
    "read_tables",
    "tiers_of",
]
