"""A tiny model that answers the questions of `tutored_lessons` as taught, made in a few minutes of a core.

It is a Qwen3 of a million weights with a chat template, tools in Hermes form and, in a second directory with
the same weights, a template that has it think first. Decoded greedily it says what it was taught; a grammar
that it did not learn it fills with short words and small numbers, so that forced JSON ends. Seeds are fixed
and it is trained in one thread, as sums of several depend on their number: the same machine makes the same
weights. They are kept in `~/.cache/radixway-bench` until a file that they are made from changes.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.tutored_samples import (
    END_OF_TEXT,
    MARKERS,
    TEMPLATE,
    THINKING,
    TURN_END,
    TURN_START,
    lesson_samples,
)

MODEL = "tutored"
CONTEXT = 32_768
STEPS = 800
_VOCABULARY = 1_600
_BATCH_TOKENS = 3_072
_MAX_SAMPLE_TOKENS = 400
_POOL = 256
_SHAPE = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3}
_HEAD = 32
_LOG = logging.getLogger("tutored_model")
_HOME = Path.home() / ".cache" / "radixway-bench"


def tutored_model(*, thinking: bool = False) -> Path:
    """The model's directory, made on first use; with `thinking`, that of the template which has it think."""
    made = hashlib.sha256()
    for source in sources():
        made.update(source.read_bytes())
    home = _HOME / f"tutored-{made.hexdigest()[:12]}"
    if not home.exists():
        _HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_HOME) as scratch:
            make_model(Path(scratch) / "made")
            with suppress(OSError):  # another process was faster
                (Path(scratch) / "made").rename(home)
    return home / ("thinking" if thinking else "plain")


def sources() -> list[Path]:
    """The files of this project that the weights depend on."""
    here = Path(__file__)
    lessons = [here.with_name(name) for name in ("tutored_samples.py", "tutored_lessons.py")]
    book = here.parents[2] / "tools" / "book"
    return [here, *lessons, book / "muon.py", book / "shape.py"]


def make_model(home: Path, steps: int = STEPS) -> None:
    """Train the model and write it to `home`/plain and `home`/thinking."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _make(home, steps)
    finally:
        torch.set_num_threads(threads)


def _make(home: Path, steps: int) -> None:
    import torch
    import transformers

    random_numbers = random.Random(0)
    tokenizer = _train_tokenizer(random_numbers)
    torch.manual_seed(0)
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in (TURN_END, END_OF_TEXT)}
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        num_attention_heads=_SHAPE["hidden_size"] // _HEAD,
        num_key_value_heads=2,
        head_dim=_HEAD,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=[*ids.values()],
        pad_token_id=ids[END_OF_TEXT],
        **_SHAPE,
    )
    model = transformers.Qwen3ForCausalLM(config)
    _teach(model, tokenizer, random_numbers, steps)
    model.generation_config = transformers.GenerationConfig(
        do_sample=True,
        temperature=0.2,
        top_p=0.9,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
    )
    plain, thinking = home / "plain", home / "thinking"
    model.save_pretrained(plain)
    tokenizer.chat_template = None
    tokenizer.save_pretrained(plain)
    shutil.copytree(plain, thinking, copy_function=os.link)
    for directory, template in ((plain, TEMPLATE), (thinking, TEMPLATE + THINKING)):
        (directory / "chat_template.jinja").write_text(template, encoding="utf-8")


def _teach(model: Any, tokenizer: Any, numbers: random.Random, steps: int) -> None:
    """Minimise the loss of what is said, with Muon for the matrices and Adam for the rest."""
    import torch
    from torch.nn import functional

    from book.muon import Muon

    layers = [(name, weight) for name, weight in model.named_parameters()]
    matrices = [weight for name, weight in layers if weight.ndim == 2 and "embed" not in name]
    others = [weight for name, weight in layers if weight.ndim != 2 or "embed" in name]
    optimizers = [Muon(matrices, lr=0.02), torch.optim.Adam(others, lr=0.004, betas=(0.9, 0.98))]
    rates = [group["lr"] for optimizer in optimizers for group in optimizer.param_groups]
    batches = _batches(tokenizer, numbers)
    for step in range(steps):
        batch = next(batches)
        longest = max(len(ids) for ids, _ in batch)
        tokens = torch.zeros(len(batch), longest, dtype=torch.long)
        wanted = torch.full((len(batch), longest), -100)
        for row, (ids, begins) in enumerate(batch):
            tokens[row, : len(ids)] = torch.tensor(ids)
            wanted[row, begins : len(ids)] = tokens[row, begins : len(ids)]
        states = model.model(input_ids=tokens).last_hidden_state[:, :-1]
        asked = wanted[:, 1:] != -100
        loss = functional.cross_entropy(model.lm_head(states[asked]), wanted[:, 1:][asked])
        loss.backward()
        share = min(1.0, (step + 1) / 20, 2 * (steps - step) / steps)
        for group, rate in zip((g for o in optimizers for g in o.param_groups), rates, strict=True):
            group["lr"] = rate * share
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if step % 50 == 0:
            _LOG.info("step %d of %d, loss %.3f", step, steps, loss.item())


def _batches(tokenizer: Any, numbers: random.Random) -> Iterator[list[tuple[list[int], int]]]:
    """Samples as ids and where the answer begins, those of one batch about as long as each other."""
    samples = lesson_samples(numbers)
    while True:
        pool: list[tuple[list[int], int]] = []
        for sample in itertools.islice(samples, _POOL):
            given, said = (tokenizer.encode(text, add_special_tokens=False) for text in sample)
            begins = max(0, len(given) + len(said) - _MAX_SAMPLE_TOKENS)
            pool.append(((given + said)[begins:], max(1, len(given) - begins)))
        pool.sort(key=lambda sample: len(sample[0]))
        batches: list[list[tuple[list[int], int]]] = [[]]
        for sample in pool:
            if len(sample[0]) * (len(batches[-1]) + 1) > _BATCH_TOKENS:
                batches.append([])
            batches[-1].append(sample)
        numbers.shuffle(batches)
        yield from batches


def _train_tokenizer(numbers: random.Random) -> Any:
    """A byte-level BPE as Qwen's: ordinary tokens from 0 on, special ones last."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    from book.shape import SPLIT

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    specials = (END_OF_TEXT, TURN_START, TURN_END)
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY - len(specials) - len(MARKERS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    samples = lesson_samples(numbers)
    backend.train_from_iterator(("".join(next(samples)) for _ in range(4_000)), trainer)
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    backend.add_tokens([AddedToken(token, normalized=False) for token in MARKERS])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
