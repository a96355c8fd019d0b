"""What trajectories cost, and what they give: the tree, a request on `/generate`, whole dialogues.

    python benchmarks/trajectories.py [--parts tree,http,dialogues] [--rounds N] [--quick] [--json FILE]

- **tree**: pairs of a lookup and an insertion a second, and bytes per token, beside the tree that Slime's
  router published (`trajectory_tree.py`).
- **http**: requests per CPU second of a gateway that records, beside one that only proxies
  (`trajectory_http.py`).
- **dialogues**: latency per turn and samples a second on an embedded engine with and without what the gateway
  caches (`trajectory_dialogues.py`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import trajectory_dialogues
import trajectory_http
import trajectory_tree
from report import write_json

PARTS: dict[str, Callable[..., dict[str, object]]] = {
    "tree": trajectory_tree.run,
    "http": trajectory_http.run,
    "dialogues": trajectory_dialogues.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS), help="which of them, with commas between")
    parser.add_argument("--rounds", type=int, help="of each part")
    parser.add_argument("--quick", action="store_true", help="less work, fewer rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    options = parser.parse_args()
    names = options.parts.split(",")
    if unknown := set(names) - PARTS.keys():
        parser.error(f"there is no part {unknown.pop()!r}; there are {', '.join(PARTS)}")
    figures = {name: PARTS[name](quick=options.quick, rounds=options.rounds) for name in names}
    if options.json:
        write_json(options.json, figures)


if __name__ == "__main__":
    main()
