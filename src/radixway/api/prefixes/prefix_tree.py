"""A tree of the prefixes that requests share, made of the hashes of their prompts' blocks.

Sorted, requests that begin alike stand next to each other, so that a node of the tree is a stretch of the
list, and what it shares ends where its first and its last request part::

    depth      0    4        9
    [lo, hi)   ████████████              one node: from 4 to 9, for the requests in [lo, hi)
               ████████████████████
               ████████████   ▒▒▒
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, nlargest
from itertools import groupby


@dataclass(frozen=True, slots=True)
class PromptBlocks:
    """A request's prompt blocks and counts."""

    model: str
    blocks: tuple[int, ...]
    block_tokens: int
    tenant: str
    worker: str
    at: float
    """Seconds since the epoch."""


@dataclass(slots=True)
class SharedPrefix:
    """A node: what the requests `[lo, hi)` have in common behind the node above."""

    parent: int | None
    level: int
    model: str
    start: int
    """Blocks before it."""
    end: int
    lo: int
    hi: int
    block: int | None = None
    """The name of its last block; None for a model's own node, which has none."""
    hidden: int = 0
    """Nodes right below it that are not shown, and the tokens on their edges."""
    hidden_tokens: int = 0
    tokens: int = 0
    tenants: Counter[str] = field(default_factory=Counter)
    workers: Counter[str] = field(default_factory=Counter)
    last_used: float = 0.0

    @property
    def requests(self) -> int:
        return self.hi - self.lo


def build_prefix_tree(chains: Sequence[PromptBlocks], max_nodes: int, max_levels: int) -> list[SharedPrefix]:
    """Return the `max_nodes` busiest nodes, the longest first among equals; each after its parent."""
    ordered = sorted(chains, key=lambda chain: (chain.model, chain.block_tokens, chain.blocks))
    shown: list[SharedPrefix] = []
    heap: list[tuple[int, int, int, SharedPrefix]] = []
    pushed = 0
    for lo, hi in _groups((chain.model, chain.block_tokens) for chain in ordered):
        pushed += 1
        model = SharedPrefix(None, 0, ordered[lo].model, 0, 0, lo, hi)
        heappush(heap, (lo - hi, 0, pushed, model))
    while heap and len(shown) < max_nodes:
        node = heappop(heap)[-1]
        number = len(shown)
        shown.append(node)
        chains_through = ordered[node.lo : node.hi]
        node.tenants.update(chain.tenant for chain in chains_through)
        node.workers.update(chain.worker for chain in chains_through)
        node.last_used = max(chain.at for chain in chains_through)
        if node.parent is not None:
            parent = shown[node.parent]
            parent.hidden -= 1
            parent.hidden_tokens -= node.tokens
        children = _split_children(node, number, ordered)
        node.hidden = len(children)
        node.hidden_tokens = sum(child.tokens for child in children)
        if node.level + 1 < max_levels:
            for child in nlargest(max_nodes, children, key=lambda child: (child.requests, child.tokens)):
                pushed += 1
                heappush(heap, (-child.requests, -child.tokens, pushed, child))
    return shown


def _split_children(node: SharedPrefix, number: int, ordered: Sequence[PromptBlocks]) -> list[SharedPrefix]:
    depth, lo = node.end, node.lo
    while lo < node.hi and len(ordered[lo].blocks) == depth:  # those that end here stand first
        lo += 1
    found = []
    for begin, end in _groups(chain.blocks[depth] for chain in ordered[lo : node.hi]):
        first, last = ordered[lo + begin].blocks, ordered[lo + end - 1].blocks
        common = _common_blocks(first, last, depth)
        child = SharedPrefix(number, node.level + 1, node.model, depth, common, lo + begin, lo + end)
        child.block = first[common - 1]
        child.tokens = (common - depth) * ordered[node.lo].block_tokens
        found.append(child)
    return found


def _groups(keys: Iterable[Hashable]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of runs of equal keys."""
    lo = 0
    for _, run in groupby(keys):
        hi = lo + sum(1 for _ in run)
        yield lo, hi
        lo = hi


def _common_blocks(one: tuple[int, ...], other: tuple[int, ...], known: int) -> int:
    """Count the blocks that two prompts share, by bisection on slices; `known` of them are equal."""
    low, high = known, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
