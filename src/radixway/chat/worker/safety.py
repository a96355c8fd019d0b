"""The published safety service: what it thinks of a prompt, and the prompt that is safe then."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import aiohttp


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the service thinks."""

    label: str
    rots: str
    """Rules of thumb."""

    def triggers(self, level: int) -> bool:
        """Whether that matters at a level: 1 minds interventions, 2 cautions too."""
        return ("caution" in self.label and level > 1) or ("intervention" in self.label and level > 0)

    def make_safe(self, request: str) -> str:
        """The request, in the published words."""
        opinion = f"{self.label} as responsible chatbot that believes that {self.rots}: "
        return f"Answer the following request with {opinion}{request}"


class Safety:
    """Asks the service."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = f"{url.rstrip('/')}/safety"

    async def judge(self, prompt: str, level: int) -> Verdict:
        """Raises aiohttp.ClientError, TimeoutError, ValueError."""
        body = {"inputs": prompt, "parameters": {"level": level}}
        async with self._session.post(self._url, json=body, timeout=aiohttp.ClientTimeout(total=30)) as told:
            told.raise_for_status()
            answer: dict[str, Any] = await told.json(content_type=None)
        return read_verdict(str(answer.get("outputs", "")))


def read_verdict(outputs: str) -> Verdict:
    """`<pad>__label__<sep>rot<sep>rot</s>`, or the overview's `<sep>label<sep>rot`."""
    bare = re.sub(r"<pad>|</s>", "", outputs)
    label, *rots = [part.strip() for part in bare.split("<sep>") if part.strip()] or [""]
    return Verdict(label, " and ".join(rots))
