"""What was sampled, exactly: text → tokens, log-probabilities, loss masks and weight versions.

A radix tree of tokens that is found by text, and the sessions of agents that know nothing of tokens.
"""

from radixway.trajectories.abort_policy import ResumeAborted
from radixway.trajectories.memory_budget import MemoryBudget, StoreFullError
from radixway.trajectories.path_owners import PathOwners, remove_paths
from radixway.trajectories.radix_tree_middleware import RadixTreeMiddleware
from radixway.trajectories.retrieval import RetrievedTokens, TokenRetrieval
from radixway.trajectories.store import PathHold, TrajectoryMatch, TrajectoryStore
from radixway.trajectories.string_radix_trie import MatchResult, StringRadixTrie
from radixway.trajectories.token_records import TokenLabel, Trajectory, Version
from radixway.trajectories.trie_registry import TrieRegistry

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
