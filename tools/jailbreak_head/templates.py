"""Texts from templates: `{is|are}` is one of several, `{@LIST}` one of a list."""

import random
import re
from pathlib import Path

AUTHORED = Path(__file__).parents[1] / "jailbreak_data"
_INNERMOST = re.compile(r"\{([^{}]*)\}")
_TRIES = 4


def sections(name: str) -> list[tuple[str, str]]:
    """Lines under `[heading]`s, as (heading, line); \\n in a line stands for a line break."""
    heading, found = "", []
    for line in (AUTHORED / name).read_text("utf-8").splitlines():
        if head := re.fullmatch(r"\[([^\]{}]+)\]", line):
            heading = head[1]
        elif line.strip() and not line.startswith("# "):
            found.append((heading, line.replace("\\n", "\n")))
    return found


def expand(line: str, count: int) -> list[str]:
    """As many different texts, or fewer where the line does not have them; the same ones every time."""
    chance = random.Random(line)
    lists = _lists()
    found: dict[str, None] = {}
    for _ in range(count * _TRIES):
        if len(found) == count:
            break
        found[_one(line, lists, chance)] = None
    return list(found)


def _one(line: str, lists: dict[str, list[str]], chance: random.Random) -> str:
    def choose(slot: re.Match[str]) -> str:
        options = slot[1].split("|")
        said = chance.choice(options)
        return chance.choice(lists[said[1:]]) if said.startswith("@") and said[1:] in lists else said

    while "{" in line and (chosen := _INNERMOST.sub(choose, line)) != line:
        line = chosen
    return re.sub(r"@(\w+)", lambda name: chance.choice(lists.get(name[1], [name[0]])), line)


def _lists() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for heading, line in sections("lists.txt"):
        found.setdefault(heading, []).append(line)
    return found
