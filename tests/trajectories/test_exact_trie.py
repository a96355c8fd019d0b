"""The published trie with a real tokenizer: what it calls exact is what the sampler saw and made."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field

import pytest

from radixway.engine.detokenizer import DetokenizedStream
from radixway.engine.sampling_params import SamplingParams
from radixway.trajectories import StringRadixTrie
from support.engine_record import Call, EngineRecord, Told
from support.odd_texts import END, START, any_tokens, guide, odd_text, spell

SEED = int(os.environ.get("RADIXWAY_TEST_SEED") or random.SystemRandom().randrange(2**32))


@dataclass
class Dialogue:
    session: int | None
    text: str = ""
    known: Told = field(default_factory=Told)
    """What the engine has seen and made so far."""
    answers: list[tuple[int, int]] = field(default_factory=list)
    """Where each ends, in characters and in tokens."""
    alone: bool = True
    """Its session has no other history, which the same text might be of."""


class Rollout:
    """Dialogues that go on, part, are edited, broken off and evicted, at random."""

    def __init__(self, seed: int, *, bounded: bool) -> None:
        self.rng = random.Random(seed)
        self.bounded = bounded
        self.tokenizer = guide()
        self.trie = StringRadixTrie(
            self.rng.randint(40, 400) if bounded else None,
            self.rng.randint(1, 3),
            self.tokenizer,
            max_bytes=self.rng.choice([None, 20_000]) if bounded else None,
        )
        self.engine = EngineRecord()
        self.few = [odd_text(self.rng, 3) for _ in range(3)]
        """What is said again and again."""
        self.dialogues: list[Dialogue] = []
        self.sessions = 0
        self.version: int | str = 1
        self.stopped = False
        """The latest answer met a stop string."""
        self.asked = self.exact = 0

    def step(self) -> None:
        """One thing that happens in a rollout."""
        rng = self.rng
        if not self.dialogues or rng.random() < 0.15:
            self.dialogues.append(Dialogue(self.new_session()))
        dialogue = rng.choice(self.dialogues)
        happens = rng.random()
        if happens < 0.55:
            self.turn(dialogue)
        elif happens < 0.65:
            self.sibling(dialogue)
        elif happens < 0.75:
            self.edit(dialogue)
        elif happens < 0.8:
            self.version = rng.choice([self.number() + 1, str(self.number() + 1)])
        elif happens < 0.85 and self.bounded:
            self.trie.gc_by_weight_version(self.version)
        elif happens < 0.88 and self.bounded and dialogue.text:
            self.trie.remove(dialogue.text)
        else:
            self.ask_anything(dialogue)

    def new_session(self) -> int | None:
        self.sessions += 1
        return self.sessions if self.rng.random() < 0.85 else None

    def words(self) -> str:
        return self.rng.choice(self.few) if self.rng.random() < 0.7 else odd_text(self.rng, 6)

    def number(self) -> int:
        return int(self.version)

    def turn(self, dialogue: Dialogue) -> None:
        """A user says something and the engine answers."""
        rng = self.rng
        said = self.words()
        if rng.random() < 0.5:
            said = f"{END * (rng.random() < 0.7)}\n{START}user\n{said}{END}\n{START}assistant\n"
        self.answer(dialogue, dialogue.text + said)

    def sibling(self, dialogue: Dialogue) -> None:
        """The same goes on in another session, or again in its own."""
        text, known, answers = dialogue.text, dialogue.known, dialogue.answers
        said = self.words()
        for _ in range(self.rng.randint(1, 3)):
            if self.rng.random() < 0.3:
                other = Dialogue(dialogue.session, text, known, [*answers], alone=False)
                dialogue.alone = False
            else:  # it was not sampled there
                other = Dialogue(self.new_session(), text)
            self.dialogues.append(other)
            self.answer(other, text + said)
        self.answer(dialogue, text + said)

    def edit(self, dialogue: Dialogue) -> None:
        """The client rewrites the end of its history."""
        if not dialogue.text:
            return
        cut = self.rng.randrange(len(dialogue.text))
        dialogue.answers = [ends for ends in dialogue.answers if ends[0] <= cut]
        kept = dialogue.answers[-1][1] if dialogue.answers else 0
        dialogue.known = dialogue.known.first(kept)
        dialogue.alone = False
        self.answer(dialogue, dialogue.text[:cut] + self.words())

    def answer(self, dialogue: Dialogue, text: str) -> None:
        """The engine answers, maybe in two parts of which the first was aborted."""
        prompt = self.ask(text, dialogue.session)
        if not self.bounded and dialogue.session is not None and dialogue.alone:
            assert prompt.keeps(dialogue.known), "history was not kept as it was sampled"
        params = self.sampling()
        made: list[int] = []
        longest = ""
        for last in self.rng.choice([[True], [True], [True], [False, True]]):
            ids, answer = self.sample(params, made, last=last)
            if self.rng.random() < 0.05:
                answer = self.words()  # the worker has another idea of what its tokens spell
            logprobs = [-self.rng.expovariate(1) for _ in ids]
            call = Call(
                dialogue.session, None, text + answer, prompt.ids, ids, logprobs, [self.version] * len(ids)
            )
            self.engine.calls.append(call)
            prompt, made = prompt.and_made(call), made + ids
            self.insert(text + answer, prompt, dialogue.session)
            longest = max(longest, answer, key=len)
            if ids[-1] in self.tokenizer.eos_token_ids or self.stopped:
                break
            if not last and self.rng.random() < 0.5:
                self.version = self.number() + 1
        dialogue.text, dialogue.known = text + answer, prompt
        dialogue.answers.append((len(dialogue.text), len(prompt)))
        self.ask_finished(dialogue)
        if answer != longest:  # a stop string took back what the aborted part had shown
            dialogue.alone = False

    def sampling(self) -> SamplingParams:
        stop = self.rng.choice([(), (), ("\n\n",), (" international", "树"), (" ",)])
        return SamplingParams(stop=stop, skip_special_tokens=self.rng.random() < 0.7)

    def sample(self, params: SamplingParams, before: list[int], *, last: bool) -> tuple[list[int], str]:
        """Tokens that go on from `before`, and the text of both as the engine shows it."""
        rng, tokenizer = self.rng, self.tokenizer
        shown = DetokenizedStream(tokenizer, params)
        text = shown.feed(before)
        kind = rng.random()
        if kind < 0.4:
            wanted = spell(rng, tokenizer, self.words())
        elif kind < 0.7:
            wanted = tokenizer.encode(self.words())
        else:
            wanted = [*any_tokens(rng, tokenizer, rng.randint(1, 5))]
        if rng.random() < 0.3:
            wanted = wanted[: rng.randrange(len(wanted)) + 1]
        ids: list[int] = []
        for token in wanted:
            ids.append(token)
            if token in tokenizer.eos_token_ids:
                break
            text += shown.feed([token])
            if shown.matched_stop is not None:
                break
        else:
            if last and rng.random() < 0.7:
                ids.append(min(tokenizer.eos_token_ids))
        text += shown.flush()
        self.stopped = shown.matched_stop is not None
        return ids, text

    def insert(self, text: str, told: Told, session: int | None) -> None:
        stored = self.trie.insert(
            text,
            told.ids,
            told.logprobs,
            told.mask,
            self.version,
            versions=told.versions,
            session=session,
        )
        assert stored or self.bounded

    def ask(self, text: str, session: int | None, *, whole: bool = False) -> Told:
        """What the trie says of a text; if it says that is exact, the engine has to say so too."""
        found = self.trie.retrieve(text, session=session)
        trajectory = found.trajectory
        told = Told(
            trajectory.ids.tolist(), trajectory.logprobs.tolist(), trajectory.mask, trajectory.versions
        )
        self.asked += 1
        if found.exact:
            self.exact += 1
            reason = self.engine.refutes(told, text, session)
            assert reason is None, f"{reason}: {text!r} of {session}"
        assert found.exact or not whole, f"not exact: {text!r} of {session}"
        return told

    def ask_finished(self, dialogue: Dialogue) -> None:
        sure = not self.bounded and dialogue.session is not None
        told = self.ask(dialogue.text, dialogue.session, whole=sure)
        if sure and dialogue.alone:
            assert len(told) == len(dialogue.known) and told.keeps(dialogue.known)

    def ask_anything(self, dialogue: Dialogue) -> None:
        """Beginnings, endings that nobody wrote, other sessions, none."""
        rng = self.rng
        text = dialogue.text
        if rng.random() < 0.5:
            text = text[: rng.randint(0, len(text))]
        if rng.random() < 0.3:
            text += self.words()
        session = rng.choice([dialogue.session, None, rng.randint(1, self.sessions + 1)])
        if text:
            self.ask(text, session)

    def end(self) -> None:
        """All that was finished is asked again, by everybody."""
        self.trie.check()
        for dialogue in self.dialogues:
            if dialogue.text:
                self.ask_finished(dialogue)
                self.ask(dialogue.text, None)
        self.trie.check()
        self.trie.clear()
        self.trie.check()


def roll_out(seed: int, *, bounded: bool, steps: int) -> Rollout:
    rollout = Rollout(seed, bounded=bounded)
    try:
        for _ in range(steps):
            rollout.step()
        rollout.end()
    except Exception as error:
        error.add_note(f"seed {seed}, bounded {bounded}, {steps} steps")
        raise
    return rollout


def test_every_finished_dialogue_is_exact_where_there_is_room():
    for number in range(8):
        rollout = roll_out(SEED + number, bounded=False, steps=40)
        assert rollout.exact >= rollout.asked / 3


def test_whatever_is_called_exact_is_so_whatever_was_evicted():
    rollouts = [roll_out(SEED + number, bounded=True, steps=50) for number in range(12)]
    assert sum(rollout.exact for rollout in rollouts) >= sum(rollout.asked for rollout in rollouts) / 10


@pytest.mark.slow
@pytest.mark.parametrize("bounded", [False, True])
def test_the_same_holds_in_many_more_rollouts(bounded):
    for number in range(8, 400):
        roll_out(SEED + number, bounded=bounded, steps=60)
