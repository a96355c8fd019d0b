"""What was sampled, exactly: text → tokens, log-probabilities, loss masks and weight versions.

A radix tree of tokens that is found by text, and the sessions of agents that know nothing of tokens.
"""

from radixway.trajectories.abort import ResumeAborted
from radixway.trajectories.memory import MemoryBudget, StoreFullError
from radixway.trajectories.owners import PathOwners, remove_paths
from radixway.trajectories.recording import RadixTreeMiddleware
from radixway.trajectories.records import TokenLabel, Trajectory, Version
from radixway.trajectories.retrieval import RetrievedTokens, TokenRetrieval
from radixway.trajectories.store import PathHold, TrajectoryMatch, TrajectoryStore
from radixway.trajectories.trie import MatchResult, StringRadixTrie
from radixway.trajectories.tries import TrieRegistry

__all__ = [
    "MatchResult",
    "MemoryBudget",
    "PathHold",
    "PathOwners",
    "RadixTreeMiddleware",
    "ResumeAborted",
    "RetrievedTokens",
    "StoreFullError",
    "StringRadixTrie",
    "TokenLabel",
    "TokenRetrieval",
    "Trajectory",
    "TrajectoryMatch",
    "TrajectoryStore",
    "TrieRegistry",
    "Version",
    "remove_paths",
]
