"""Answers from the gateway, and each of them again as the exact tokens that it was sampled as."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp


@dataclass(slots=True)
class Rollout:
    """One sampled answer. Lists are per token of prompt and answer together."""

    text: str
    tokens: list[int]
    loss_mask: list[int]
    """1 for tokens to train on: those that the model sampled."""
    logprobs: list[float]
    """As sampled, by whichever weights it was; 0 for the prompt."""
    versions: list[int | None]
    """Which weights sampled each token; None for the prompt's."""


class Gateway:
    """The calls of a trainer."""

    def __init__(self, url: str, client: aiohttp.ClientSession, *, in_flight: int, **sampling: Any) -> None:
        self._url = url.rstrip("/")
        self._client = client
        self._places = asyncio.Semaphore(in_flight)
        # With all that the model may say as likely as it says, log-probabilities are the model's own.
        self._sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, **sampling}

    async def sample(self, prompts: Sequence[str], group: int, seed: int) -> list[list[Rollout | None]]:
        """`group` answers to each prompt; None in place of an answer that is not exact."""
        answers = [
            self._answer(prompt, seed + index * group + place)
            for index, prompt in enumerate(prompts)
            for place in range(group)
        ]
        rollouts = await asyncio.gather(*answers)
        return [rollouts[at : at + group] for at in range(0, len(rollouts), group)]

    async def push(self, weights: bytes, version: int, *, abort: bool = False) -> None:
        """New weights, a safetensors file, for all engines; `abort`: answers under way go on with them."""
        query = f"weight_version={version}&abort_all_requests={str(abort).lower()}"
        headers = {"content-type": "application/octet-stream"}
        path = f"/update_weights_from_tensor?{query}"
        async with self._client.post(self._url + path, data=weights, headers=headers) as response:
            if response.status != 200:
                raise SystemExit(f"the weights were not taken: {await response.text()}")

    async def tokens_of(self, prompt: str, answer: str, session: str) -> Rollout | None:
        """What the answer was sampled as; None if that is not known exactly."""
        # Siblings that say the same may have been sampled as other tokens: the session tells which are meant.
        whole = {"text": prompt + answer, "session_id": session, "strict": True}
        status, told = await self._post("/retrieve_from_text", whole)
        if status == 409:  # strict: rather none than tokens that were made up
            return None
        if status != 200:
            raise SystemExit(f"no tokens: {told}")
        versions = [None if version is None else int(version) for version in told["versions"]]
        return Rollout(answer, told["tokens"], told["loss_mask"], told["rollout_logp"], versions)

    async def _answer(self, prompt: str, seed: int) -> Rollout | None:
        session = uuid.uuid4().hex
        asked = {"text": prompt, "sampling_params": {**self._sampling, "sampling_seed": seed}}
        async with self._places:
            status, reply = await self._post("/generate", asked, {"x-session-id": session})
        if status != 200:
            raise SystemExit(f"no answer: {reply}")
        return await self.tokens_of(prompt, reply["text"], session)

    async def _post(
        self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        async with self._client.post(self._url + path, json=body, headers=headers) as response:
            return response.status, await response.json(content_type=None)
