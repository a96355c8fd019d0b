"""Trains the guide, the small demonstration model that ships with Radixway, and says how good it is.

    python tools/train_bundled_model.py train [--reading-steps 500] [--steps 2500] [--threads 1] [--out DIR]
    python tools/train_bundled_model.py evaluate [--model DIR] [--json FILE]
    python tools/train_bundled_model.py ask "What is a radix tree?" [--system TEXT]

Needs torch, transformers and tokenizers, one CPU core, about an hour, and nothing outside this repository.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen3ForCausalLM

from book.conversations import Conversation, Teacher
from book.evaluation import answer_all, evaluate, print_report
from book.muon import Muon
from book.offtopic import OffTopic
from book.pages import read_pages
from book.reading import Reader, begin_as_bag_of_words, question_batches
from book.shape import CONTEXT, END_OF_TEXT, TURN_END, new_model, save, train_tokenizer
from book.templates import AFTER, BEFORE, FOLLOW_UPS, REFUSAL, RULES, SYSTEM_PROMPTS, TEMPLATES

BUNDLED = Path(__file__).parents[1] / "src" / "radixway" / "bundled" / "guide"
WORD_RATE, WORD_BATCH_TOKENS = 0.003, 4096
EMBEDDINGS_RATE = 0.1  # of the matrices' rate: what the words mean is learnt first and should stay
FIRST_TOKENS = 6  # which answer it is gets decided here; the rest is recitation
FIRST_TOKENS_WEIGHT = 2.0
CUT_SHARE, CUT_TO = 0.25, 9  # so that many answers are shown only by their beginning, which trains faster
RAW_FORMS = ("Question: {q}\nAnswer: {a}", "User: {q}\nAssistant: {a}", "Q: {q}\nA: {a}", "{q}\n{a}")


class Encoder:
    """Conversations to token ids and loss weights: weight 0 on everything but the answers."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, seed: int) -> None:
        self.plain: Tokenizer = tokenizer.backend_tokenizer
        # The same text cut in other ways now and then, so that a slip or a rare word is no surprise.
        self.shaken = Tokenizer.from_str(self.plain.to_str())
        self.shaken.model.dropout = 0.12
        self.rng = random.Random(seed)
        self.end = self.plain.token_to_id(END_OF_TEXT)

    def encode_question(self, conversation: Conversation) -> tuple[list[int], str]:
        """The chat up to where the answer to its only question begins, and that answer."""
        turn = conversation.turns[0]
        lead = "" if conversation.system is None else f"<|im_start|>system\n{conversation.system}<|im_end|>\n"
        text = f"{lead}<|im_start|>user\n{turn.question}<|im_end|>\n<|im_start|>assistant\n"
        cutter = self.shaken if self.rng.random() < 0.2 else self.plain
        return cutter.encode(text, add_special_tokens=False).ids, turn.answer

    def encode(self, conversation: Conversation) -> tuple[list[int], list[float]]:
        """Ids and weights of equal length, at most the context long."""
        ids: list[int] = []
        weights: list[float] = []

        def add(text: str, learn: bool = False, shake: bool = False) -> None:
            piece = (self.shaken if shake else self.plain).encode(text, add_special_tokens=False).ids
            ids.extend(piece)
            weights.extend(
                (FIRST_TOKENS_WEIGHT if at < FIRST_TOKENS else 1.0) if learn else 0.0
                for at in range(len(piece))
            )

        if conversation.raw:
            turn = conversation.turns[0]
            before, _, _ = self.rng.choice(RAW_FORMS).partition("{a}")
            add(before.format(q=turn.question).rstrip(" "))
            add(("" if ids and before.endswith("\n") else " ") + turn.answer, learn=True)
            return [*ids, self.end], [*weights, 1.0]
        if conversation.system is not None:
            add(f"<|im_start|>system\n{conversation.system}<|im_end|>\n")
        for turn in conversation.turns:
            last = turn is conversation.turns[-1]
            add(f"<|im_start|>user\n{turn.question}<|im_end|>\n", shake=self.rng.random() < 0.2)
            add("<|im_start|>assistant\n")
            begin = len(ids)
            add(f"{turn.answer}{TURN_END}", learn=True)
            if last and self.rng.random() < CUT_SHARE:
                del ids[begin + CUT_TO :], weights[begin + CUT_TO :]
            elif not last:
                add("\n")
        return ids[:CONTEXT], weights[:CONTEXT]


def batches(teacher: Teacher, encoder: Encoder, batch_tokens: int):
    """Endless batches of alike lengths: ids and weights, right-padded, about `batch_tokens` in each."""
    while True:
        rows = sorted(
            (encoder.encode(teacher.conversation()) for _ in range(800)), key=lambda row: len(row[0])
        )
        groups: list[list[tuple[list[int], list[float]]]] = [[]]
        for row in rows:
            if groups[-1] and (len(groups[-1]) + 1) * len(row[0]) > batch_tokens:
                groups.append([])
            groups[-1].append(row)
        encoder.rng.shuffle(groups)
        for group in groups:
            longest = max(len(ids) for ids, _ in group)
            ids = torch.tensor([row + [0] * (longest - len(row)) for row, _ in group])
            weights = torch.tensor([row + [0.0] * (longest - len(row)) for _, row in group])
            yield ids, weights


def loss_of(model: Qwen3ForCausalLM, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Weighted mean cross entropy of the answers; padding stands on the right, so no mask is needed."""
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    wanted = weights[:, 1:] > 0
    logits = functional.linear(hidden[wanted], model.lm_head.weight)
    losses = functional.cross_entropy(logits, ids[:, 1:][wanted], reduction="none")
    shares = weights[:, 1:][wanted]
    return (losses * shares).sum() / shares.sum()


def tokenizer_texts(offtopic: OffTopic) -> list[str]:
    """What the tokenizer is trained on: every answer and wording of the book, forms, and some of the rest."""
    texts: list[str] = []
    for page in read_pages():
        for language in ("en", "zh"):
            texts += [page.answer[language]] * 2 + page.wordings[language]
            texts += page.names[language] * 2 + page.others[language]
    for kinds in (TEMPLATES, FOLLOW_UPS):
        texts += [
            form.replace("{", " ").replace("}", " ")
            for kind in kinds.values()
            for forms in kind.values()
            for form in forms
        ]
    texts += [text for forms in (BEFORE, AFTER) for language in forms.values() for text in language]
    texts += SYSTEM_PROMPTS + RULES + list(REFUSAL.values())
    for words in offtopic.lists.values():
        texts += words
    return texts + offtopic.sampled["en"][:1200] + offtopic.sampled["zh"][:500]


def learn_words(
    model: Qwen3ForCausalLM, reader: Reader, teacher: Teacher, encoder: Encoder, steps: int
) -> None:
    """Train embeddings that name the right page by their mean alone."""
    questions = question_batches(teacher, encoder, WORD_BATCH_TOKENS, alone=True)
    parameters = [model.model.embed_tokens.weight, *reader.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=WORD_RATE, weight_decay=0.0)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = WORD_RATE * max(0.01, 1 - step / steps)
        loss = reader.words_loss(model, *next(questions))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 200 == 199:
            print(f"words {step + 1}/{steps} loss {loss.item():.4f}", flush=True)


def train(options: argparse.Namespace) -> None:
    """Trains from nothing and writes the model directory; prints the loss and the time left as it goes."""
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    offtopic = OffTopic()
    if options.resume:
        model, tokenizer = load(options.resume)
    else:
        tokenizer = train_tokenizer(tokenizer_texts(offtopic))
        model = new_model(tokenizer, options.layers, options.hidden, options.intermediate)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(tokenizer)} tokens", flush=True)
    encoder = Encoder(tokenizer, options.seed)
    pages = read_pages()
    reader = Reader(pages, model.config.hidden_size)
    questions = question_batches(Teacher(pages, offtopic, options.seed + 1), encoder, options.batch_tokens)
    chats = batches(Teacher(pages, offtopic, options.seed + 2), encoder, options.batch_tokens)
    if not options.resume:
        learn_words(model, reader, Teacher(pages, offtopic, options.seed), encoder, options.word_steps)
        begin_as_bag_of_words(model)
    inner = [p for name, p in model.named_parameters() if p.dim() > 1 and "embed" not in name]
    outer = [p for p in model.parameters() if p.dim() < 2]
    embeddings = {"params": [model.model.embed_tokens.weight], "lr": options.rate * EMBEDDINGS_RATE}
    optimizers = [
        Muon(inner, lr=options.rate),
        torch.optim.AdamW(
            [{"params": [*outer, *reader.parameters()]}, embeddings],
            lr=options.rate * 0.3,
            betas=(0.9, 0.98),
            weight_decay=0.0,
        ),
    ]
    base_rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    began = time.monotonic()
    means: dict[str, float] = {}
    steps = options.reading_steps + options.steps
    model.train()
    for step in range(steps):
        share = min(1.0, (step + 1) / 20) * max(0.02, 1 - step / steps)
        for optimizer, rates in zip(optimizers, base_rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * share
        reciting = step >= options.reading_steps
        losses = {}
        if not reciting or (options.reading_steps and step % options.reading_every == 0):
            losses["reading"] = reader.loss(model, *next(questions))
        if reciting:
            losses["reciting"] = loss_of(model, *next(chats))
        sum(losses.values()).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        for name, loss in losses.items():
            means[name] = 0.95 * means.get(name, loss.item()) + 0.05 * loss.item()
        if step % 20 == 19:
            left = (time.monotonic() - began) / (step + 1) * (steps - step - 1)
            shown = ", ".join(f"{name} {mean:.4f}" for name, mean in means.items())
            print(f"step {step + 1}/{steps} {shown} share {share:.3f}, {left / 60:.0f} min left", flush=True)
        if step % options.save_every == options.save_every - 1 or step == steps - 1:
            save(model, tokenizer, options.out)
    print(f"written to {options.out}")


def load(folder: Path) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """The model in fp32 and its tokenizer."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(folder)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train", help="train from nothing and write the model directory")
    training.add_argument("--out", type=Path, default=BUNDLED)
    training.add_argument(
        "--resume", type=Path, metavar="DIR", help="go on from these weights and their tokenizer"
    )
    training.add_argument("--steps", type=int, default=2500)
    training.add_argument(
        "--word-steps", type=int, default=1800, help="steps of words only, before --reading-steps"
    )
    training.add_argument(
        "--reading-steps", type=int, default=500, help="steps of questions only, before --steps"
    )
    training.add_argument(
        "--reading-every", type=int, default=2, help="go on reading in each so many of --steps"
    )
    training.add_argument("--batch-tokens", type=int, default=2048)
    training.add_argument("--rate", type=float, default=0.004)
    training.add_argument("--layers", type=int, default=4)
    training.add_argument("--hidden", type=int, default=256)
    training.add_argument("--intermediate", type=int, default=640)
    training.add_argument("--threads", type=int, default=1)
    training.add_argument("--seed", type=int, default=1)
    training.add_argument("--save-every", type=int, default=100)
    evaluation = commands.add_parser(
        "evaluate", help="print how good the model is on questions never trained on"
    )
    evaluation.add_argument("--json", type=Path)
    evaluation.add_argument("--show-wrong", action="store_true")
    asking = commands.add_parser("ask", help="answer questions greedily")
    asking.add_argument("questions", nargs="+")
    asking.add_argument("--system")
    for command in (evaluation, asking):
        command.add_argument("--model", type=Path, default=BUNDLED)
        command.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.command == "train":
        train(options)
        return
    torch.set_num_threads(options.threads)
    model, tokenizer = load(options.model)
    if options.command == "ask":
        lead = [{"role": "system", "content": options.system}] if options.system else []
        chats = [[*lead, {"role": "user", "content": question}] for question in options.questions]
        for question, answer in zip(options.questions, answer_all(model, tokenizer, chats), strict=True):
            print(f"{question}\n  {answer}")
        return
    report = evaluate(model, tokenizer, show_wrong=options.show_wrong)
    print_report(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
