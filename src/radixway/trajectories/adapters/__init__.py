"""Samples in the layouts of trainers: slime's `Sample` and verl's `DataProto`.

They take what `/retrieve_from_text` and `/sessions/{id}/samples` answer, as decoded from JSON, and import
nothing of slime, verl, numpy or torch.
"""

from radixway.trajectories.adapters.slime import to_slime
from radixway.trajectories.adapters.verl import VerlBatch, to_verl

__all__ = ["VerlBatch", "to_slime", "to_verl"]
