"""Random dialogues with a real engine: what the gateway tells as exact is what the engine says."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.engine_process import engine_process
from support.engine_record import Call, Told
from support.generate_worker import until_idle
from support.odd_texts import END, START, guide, odd_text
from support.recording_proxy import RecordingProxy, recording_proxy
from support.running_gateway import RunningGateway, running_gateway

SEED = int(os.environ.get("RADIXWAY_TEST_SEED") or random.SystemRandom().randrange(2**32))


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with engine_process() as (url, _):
        yield url


@dataclass
class Dialogue:
    session: str
    text: str = ""
    known: Told = field(default_factory=Told)
    """What the engine has seen and made so far."""
    sure: bool = True
    """Its session has no other history, which the same text might be of."""


class Rollout:
    """Dialogues side by side, and what befalls them."""

    def __init__(self, gateway: RunningGateway, proxy: RecordingProxy, seed: int, *, bounded: bool) -> None:
        self.gateway = gateway
        self.proxy = proxy
        self.rng = random.Random(seed)
        self.bounded = bounded
        self.few = [odd_text(self.rng, 3) for _ in range(3)]
        self.dialogues: list[Dialogue] = []
        self.sessions = self.requests = self.version = 0
        self.running: set[str] = set()
        self.asked = self.exact = 0

    async def run(self, dialogues: int, turns: int) -> None:
        """All of it. At the end everything is asked for again."""
        talking = [asyncio.create_task(self.talk(turns)) for _ in range(dialogues)]
        befalling = asyncio.create_task(self.befall())
        try:
            await asyncio.gather(*talking)
        finally:
            befalling.cancel()
            await asyncio.gather(befalling, *talking, return_exceptions=True)
        await self.tell("/continue_generation")
        for dialogue in self.dialogues:
            await self.ask_finished(dialogue)
            await self.ask(dialogue.text, None)

    async def talk(self, turns: int) -> None:
        """One dialogue, and what branches off from it."""
        dialogue = Dialogue(self.new_session())
        for _ in range(turns):
            happens = self.rng.random()
            if happens < 0.15 and dialogue.text:
                dialogue = await self.edit(dialogue)
            elif happens < 0.3:
                await self.siblings(dialogue)
            elif happens < 0.4:
                await self.leave(dialogue)
            elif happens < 0.5:
                await self.several(dialogue)
            else:
                await self.answer(dialogue, dialogue.text + self.said())
            await self.ask_anything(dialogue)
        if dialogue.text:
            self.dialogues.append(dialogue)

    async def befall(self) -> None:
        """Aborts, wanted and not, pauses, and new versions of the weights, for as long as there is talk."""
        while True:
            await self.decoding(self.rng.randint(5, 40))
            happens = self.rng.random()
            if happens < 0.3 and self.running:
                rid = self.rng.choice(sorted(self.running))
                await self.tell("/abort_request", rid=rid)
            elif happens < 0.6 and self.running:
                rid = self.rng.choice(sorted(self.running))
                await self.post(self.proxy.engine + "/abort_request", rid=rid)
            elif happens < 0.8:
                await self.tell("/pause_generation", mode="abort")
                await self.tell("/continue_generation")
            else:
                self.version += 1
                await self.tell("/update_weight_version", new_version=f"v{self.version}")

    async def decoding(self, tokens: int) -> None:
        """Wait until so many more tokens have been sampled."""

        async def generated() -> int:
            async with self.gateway.client.get(self.proxy.engine + "/server_info") as response:
                return int((await response.json())["stats"]["generated_tokens"])

        enough = await generated() + tokens
        while await generated() < enough:
            pass

    def new_session(self) -> str:
        self.sessions += 1
        return f"s{self.sessions}"

    def new_rid(self, session: str) -> str:
        self.requests += 1
        return f"{session}.{self.requests}"

    def words(self) -> str:
        return self.rng.choice(self.few) if self.rng.random() < 0.6 else odd_text(self.rng, 6)

    def said(self) -> str:
        said = self.words()
        if self.rng.random() < 0.6:
            said = f"{END * (self.rng.random() < 0.7)}\n{START}user\n{said}{END}\n{START}assistant\n"
        return said

    def body(self, session: str, text: str, **sampling: Any) -> dict[str, Any]:
        rng = self.rng
        params: dict[str, Any] = {
            "temperature": rng.choice([0, 1, 1.3]),
            "max_new_tokens": rng.randint(0, 30),
        }
        if rng.random() < 0.3:
            params["stop"] = rng.choice([["\n\n"], [" the", "。"], " ", ["e"]])
        if rng.random() < 0.4:
            params["skip_special_tokens"] = False
        if rng.random() < 0.3:
            params["no_stop_trim"] = True
        body = {"rid": self.new_rid(session), "session_id": session, "sampling_params": params | sampling}
        if rng.random() < 0.15:
            return body | {"input_ids": guide().encode(text)}
        return body | {"text": text}

    async def post(self, url: str, **fields: Any) -> Any:
        async with self.gateway.client.post(url, json=fields) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def tell(self, path: str, **fields: Any) -> Any:
        return await self.post(self.gateway.url + path, **fields)

    async def generate(self, body: dict[str, Any]) -> Any:
        """The answer, or as many as were asked for, which come whole or as a stream."""
        self.running.add(body["rid"])
        try:
            if self.rng.random() < 0.5:
                return await self.tell("/generate", **body)
            last: dict[int, Any] = {}
            async with self.gateway.client.post(
                self.gateway.url + "/generate", json=body | {"stream": True}
            ) as response:
                async for line in response.content:
                    if line.startswith(b"data: {"):
                        event = json.loads(line[6:])
                        last[event.get("index", 0)] = event
            return [last[index] for index in sorted(last)] if "n" in body["sampling_params"] else last[0]
        finally:
            self.running.discard(body["rid"])

    async def answer(self, dialogue: Dialogue, text: str) -> None:
        body = self.body(dialogue.session, text)
        own_tokens = "input_ids" in body
        reply = await self.generate(body)
        calls = self.calls_of(body)
        first, last = calls[0], calls[-1]
        if dialogue.sure and not self.bounded and not own_tokens:
            kept = dialogue.known.answered().ids
            assert first.prompt[: len(kept)] == kept, "history was not kept"
        told = self.read(reply, first.prompt)
        assert told.ids == last.ids[: len(told)], "the client was told other tokens than the engine made"
        last.text = dialogue.text = text + reply["text"]
        kept = dialogue.known.answered() if dialogue.sure and not own_tokens else Told()
        told = Told(
            told.ids,
            kept.logprobs + told.logprobs[len(kept) :],
            kept.mask + told.mask[len(kept) :],
            kept.versions + told.versions[len(kept) :],
        )
        dialogue.known = told
        if own_tokens:
            dialogue.sure = False
        await self.ask_finished(dialogue)

    def calls_of(self, body: dict[str, Any]) -> list[Call]:
        """What the engine was asked for it, attempt by attempt."""
        return [call for call in self.proxy.record.calls if call.rid == body["rid"]]

    @staticmethod
    def read(reply: Any, prompt: list[int]) -> Told:
        meta, made = reply["meta_info"], reply["output_ids"]
        versions: list[Any] = []
        for span in meta["weight_versions"]:
            versions += [span["version"]] * (span["end"] - span["start"])
        logprobs = [row[0] for row in meta["output_token_logprobs"]]
        call = Call("", "", "", prompt, made, logprobs, versions)
        count = len(prompt)
        return Told(prompt, [0.0] * count, [0] * count, [None] * count).and_made(call)

    async def siblings(self, dialogue: Dialogue) -> None:
        """The same again in sessions of their own."""
        said = self.said()
        others = [Dialogue(self.new_session(), dialogue.text) for _ in range(self.rng.randint(1, 2))]
        everybody = [*others, dialogue]
        await asyncio.gather(*(self.answer(each, dialogue.text + said) for each in everybody))
        self.dialogues += others

    async def edit(self, dialogue: Dialogue) -> Dialogue:
        """The client rewrites the end of its history."""
        cut = self.rng.randrange(len(dialogue.text))
        edited = Dialogue(dialogue.session, sure=False)
        dialogue.sure = False
        self.dialogues.append(dialogue)
        await self.answer(edited, dialogue.text[:cut] + self.words())
        return edited

    async def several(self, dialogue: Dialogue) -> None:
        """Several samples of one prompt, and several prompts in one request."""
        session = self.new_session()
        body = self.body(session, dialogue.text + self.said(), n=2)
        replies = await self.generate(body)
        for reply, call in zip(replies, self.calls_of(body), strict=False):
            call.text = body.get("text", "") + reply["text"]
        for reply in replies:
            if "text" in body:
                await self.ask(body["text"] + reply["text"], session)
        batch = self.body(session, "x") | {"rid": [self.new_rid(session), self.new_rid(session)]}
        batch.pop("input_ids", None)
        batch["text"] = [self.words(), self.words()]
        for text, reply in zip(batch["text"], await self.tell("/generate", **batch), strict=True):
            await self.ask(text + reply["text"], session)

    async def leave(self, dialogue: Dialogue) -> None:
        """A client that does not hear its answer out."""
        session = self.new_session()
        body = self.body(session, dialogue.text + self.said(), ignore_eos=True, max_new_tokens=200)
        text = body.get("text", "")
        async with self.gateway.client.post(
            self.gateway.url + "/generate", json=body | {"stream": True}
        ) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    text = body.get("text", "") + json.loads(line[6:])["text"]
                    if self.rng.random() < 0.3:
                        response.close()
                        break
        if text:
            await self.ask(text, session)

    async def ask(self, text: str, session: str | None, *, whole: bool = False) -> Told:
        """What is told of a text; if that is called exact, the engine has to say so too."""
        fields = {"text": text} | ({} if session is None else {"session_id": session})
        said = await self.tell("/retrieve_from_text", **fields)
        told = Told(said["tokens"], said["rollout_logp"], said["loss_mask"], said["versions"])
        self.asked += 1
        if said["exact"]:
            self.exact += 1
            reason = self.proxy.record.refutes(told, text, session)
            assert reason is None, f"{reason}: {text!r} of {session}"
        async with self.gateway.client.post(
            self.gateway.url + "/retrieve_from_text", json=fields | {"strict": True}
        ) as strict:
            if self.bounded or session is None:
                assert strict.status in (200, 409)
            elif (strict.status == 200) != said["exact"]:  # another dialogue wrote to the session meanwhile
                assert (await self.tell("/retrieve_from_text", **fields))["exact"] == (strict.status == 200)
            else:
                assert strict.status in (200, 409)
        assert said["exact"] or not whole, f"not exact: {text!r} of {session}"
        return told

    async def ask_finished(self, dialogue: Dialogue) -> None:
        told = await self.ask(dialogue.text, dialogue.session, whole=not self.bounded)
        if dialogue.sure and not self.bounded:
            assert len(told) == len(dialogue.known), f"{dialogue.text!r} of {dialogue.session}"
            assert told.keeps(dialogue.known), f"{dialogue.text!r} of {dialogue.session}"

    async def ask_anything(self, dialogue: Dialogue) -> None:
        """Beginnings, endings that nobody wrote, other sessions, none."""
        rng, text = self.rng, dialogue.text
        text = text[: rng.randint(0, len(text))] + (self.words() if rng.random() < 0.3 else "")
        if text:
            await self.ask(text, rng.choice([dialogue.session, None, f"s{rng.randint(1, self.sessions)}"]))


async def roll_out(engine: str, seed: int, *, bounded: bool, dialogues: int, turns: int) -> Rollout:
    room = {"max_cache_size": 250} if bounded and seed % 2 else {"max_bytes": 2**16} if bounded else {}
    section = {"enabled": True, "abort": {"wait_s": 0, "attempts": 50}} | room
    async with recording_proxy(engine) as proxy, running_gateway(proxy.url, trajectories=section) as gateway:
        rollout = Rollout(gateway, proxy, seed, bounded=bounded)
        try:
            await rollout.run(dialogues, turns)
            await until_idle(gateway)
            trie = await gateway.gateway.recorder.tries.trie_for(None)
            trie.check()
            assert trie.store.held == 0 and gateway.in_flight() == 0
        except Exception as error:
            error.add_note(f"seed {seed}, bounded {bounded}")
            raise
    return rollout


async def test_every_finished_trajectory_is_exact_where_there_is_room(engine):
    rollout = await roll_out(engine, SEED, bounded=False, dialogues=5, turns=4)
    assert rollout.exact >= rollout.asked / 3


async def test_whatever_is_called_exact_is_so_whatever_was_evicted(engine):
    rollout = await roll_out(engine, SEED, bounded=True, dialogues=5, turns=4)
    assert rollout.exact


@pytest.mark.slow
@pytest.mark.parametrize("bounded", [False, True])
async def test_the_same_holds_for_many_more_dialogues(engine, bounded):
    for number in range(1, 15):
        await roll_out(engine, SEED + number, bounded=bounded, dialogues=8, turns=6)
