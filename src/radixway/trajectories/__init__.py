"""What was sampled, exactly: text → tokens, log-probabilities, loss masks and weight versions.

A radix tree of tokens that is found by text, and the sessions of agents that know nothing of tokens.
"""

from radixway.trajectories.abort import ResumeAborted
from radixway.trajectories.memory import Memory, StoreFull
from radixway.trajectories.owners import Owners, forget_paths
from radixway.trajectories.recording import RadixTreeMiddleware
from radixway.trajectories.records import Label, Trajectory, Version
from radixway.trajectories.retrieval import Retrieval, Retrieved
from radixway.trajectories.store import Found, Hold, TrajectoryStore
from radixway.trajectories.trie import MatchResult, StringRadixTrie
from radixway.trajectories.tries import Tries

__all__ = [
    "Found",
    "Hold",
    "Label",
    "MatchResult",
    "Memory",
    "Owners",
    "RadixTreeMiddleware",
    "ResumeAborted",
    "Retrieval",
    "Retrieved",
    "StoreFull",
    "StringRadixTrie",
    "Trajectory",
    "TrajectoryStore",
    "Tries",
    "Version",
    "forget_paths",
]
