"""Exactly what was sampled: text → tokens, log-probabilities, loss masks and weight versions.

Start with `RadixTreeMiddleware`, which records replies of `/generate`, and `TrajectoryStore`, the radix
tree of tokens that is found by text. `sessions` records agents that know nothing of tokens; `abort_policy`
resumes aborted answers; `adapters` exports samples to trainers.

State, and the file that owns it:

- `store.py`: recorded tokens, a trie per model in `trie_registry.py`; a path is one record, held from
  lookup to answer; `check()` recounts tokens and bytes
- `session_paths.py`: each session's record; it ends at a node that no other session extends
- `path_owners.py`: whose each recorded path is; ends of evicted paths are removed
- `sessions/session.py`: sessions and their trees of calls; every call ends once; `check()` recounts
- `sessions/archive.py`: finished calls on disk, in a thread of its own; one transaction per call, before
  its answer ends
"""

from radixway.trajectories.abort_policy import ResumeAborted
from radixway.trajectories.memory_budget import MemoryBudget, StoreFullError
from radixway.trajectories.path_owners import remove_paths
from radixway.trajectories.radix_tree_middleware import RadixTreeMiddleware
from radixway.trajectories.retrieval import RetrievedTokens, TokenRetrieval
from radixway.trajectories.store import PathHold, TrajectoryStore
from radixway.trajectories.string_radix_trie import MatchResult, StringRadixTrie
from radixway.trajectories.token_records import TokenLabel, Trajectory
from radixway.trajectories.trie_registry import TrieRegistry

__all__ = [
    "MatchResult",
    "MemoryBudget",
    "PathHold",
    "RadixTreeMiddleware",
    "ResumeAborted",
    "RetrievedTokens",
    "StoreFullError",
    "StringRadixTrie",
    "TokenLabel",
    "TokenRetrieval",
    "Trajectory",
    "TrajectoryStore",
    "TrieRegistry",
    "remove_paths",
]
