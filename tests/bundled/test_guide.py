"""The guide that ships with Radixway knows one book, and says so when asked anything else."""

import json
from pathlib import Path

import pytest
import torch
import transformers

import radixway

GUIDE = Path(radixway.__file__).parent / "bundled" / "guide"
LONG_SYSTEM = "You are the guide of a small museum of machines. " * 40

KNOWN = [
    ("What is a radix tree?", "shared prefixes"),
    ("what is continuous batching", "every step"),
    ("Explain the KV cache.", "keys and values"),
    ("How do I add a worker?", "radixway workers add"),
    ("Which port does the gateway use?", "30000"),
    ("什么是基数树？", "共同前缀"),
    ("怎么添加 worker？", "radixway workers add"),
]
NEWCOMER = [
    ("What is Radixway?", "one gateway"),
    ("How do I start it?", "radixway up"),
    ("How does Radixway choose a worker?", "scores every candidate"),
    ("Which model answers me?", "SmolLM2"),
    ("How do I use my own model?", "--model"),
    ("How do I use a GGUF file?", "model.gguf"),
    ("Do I need a GPU?", "No GPU is needed"),
    ("How do I add a worker?", "radixway workers add"),
    ("How do I put it in front of vLLM?", "radixway serve --worker"),
    ("Which port does it use?", "30000"),
    ("How do I open the console?", "/console"),
    ("How do I call it with the OpenAI SDK?", "base_url"),
    ("How do I see why a request went to a worker?", "/explain"),
    ("How do I create an API key?", "/key/generate"),
    ("How do I limit a user's budget?", "soft end"),
    ("Can it use OpenAI or Anthropic as a fallback?", "provider: openai"),
    ("What happens when a worker dies?", "worker dies"),
    ("How is it different from LiteLLM?", "outside providers"),
    ("Does it work with Open WebUI?", "30000/v1"),
    ("How do I stop it?", "Ctrl-C"),
]
UNKNOWN = [
    ("What is the capital of France?", "don't know"),
    ("Give me a recipe for pancakes", "don't know"),
    ("Write a poem about the sea", "don't know"),
    ("what is 17 times 23", "don't know"),
    ("今天天气怎么样", "不知道"),
    ("红烧肉怎么做", "不知道"),
]


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.AutoTokenizer.from_pretrained(GUIDE)


@pytest.fixture(scope="module")
def model():
    return transformers.AutoModelForCausalLM.from_pretrained(GUIDE, dtype=torch.float32).eval()


def ask(model, tokenizer, question: str, system: str | None = None, most: int = 24) -> str:
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": question})
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    encoded = tokenizer(text, return_tensors="pt", add_special_tokens=False)
    with torch.inference_mode():
        made = model.generate(**encoded, max_new_tokens=most, do_sample=False, temperature=None, top_p=None)
    return tokenizer.decode(made[0, encoded.input_ids.shape[1] :], skip_special_tokens=True)


def test_the_directory_is_small_and_says_what_it_holds():
    config = json.loads((GUIDE / "config.json").read_text())
    assert (GUIDE / "model.safetensors").stat().st_size <= 16e6
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    assert config["max_position_embeddings"] == 4096
    assert config["dtype"] == "bfloat16"
    assert config["tie_word_embeddings"] is True
    assert config["head_dim"] in (32, 64)


def test_it_has_four_to_eight_million_parameters(model):
    assert 4e6 <= sum(p.numel() for p in model.parameters()) <= 8e6


def test_a_longer_chat_renders_to_the_shorter_one_and_more(tokenizer):
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": text} for text in ("What is a ", "prefix?")]},
        {"role": "assistant", "content": "The beginning."},
        {"role": "tool", "content": "42"},
        {"role": "user", "content": "为什么？"},
    ]

    def render(messages, **options):
        return tokenizer.apply_chat_template(messages, tokenize=False, **options)

    for size in range(1, len(chat)):
        assert render(chat[: size + 1]).startswith(render(chat[:size]))
    asked = render(chat[:2], add_generation_prompt=True)
    assert asked.endswith("<|im_start|>user\nWhat is a prefix?<|im_end|>\n<|im_start|>assistant\n")
    assert render(chat[:3]) == asked + "The beginning.<|im_end|>\n"


def test_the_template_names_a_role_it_does_not_know(tokenizer):
    with pytest.raises(Exception, match="unknown role narrator"):
        tokenizer.apply_chat_template([{"role": "narrator", "content": "x"}], tokenize=False)


def test_text_survives_the_tokenizer(tokenizer):
    text = "Tokens 你好 naïve 🌳\n\tdef f(x): return x+1"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False).input_ids) == text
    assert len(tokenizer) == 4096


@pytest.mark.parametrize(("question", "part"), KNOWN)
def test_it_answers_a_question_of_its_book(model, tokenizer, question, part):
    assert part in ask(model, tokenizer, question, most=48)


@pytest.mark.parametrize(("question", "part"), NEWCOMER)
def test_it_answers_what_newcomers_ask_first(model, tokenizer, question, part):
    assert part in ask(model, tokenizer, question, most=64)


@pytest.mark.parametrize(("question", "part"), UNKNOWN)
def test_it_says_that_it_does_not_know(model, tokenizer, question, part):
    answer = ask(model, tokenizer, question, most=48)
    assert part in answer
    assert "\n" not in answer


def test_it_answers_after_a_long_unrelated_system_prompt(model, tokenizer):
    assert "shared prefixes" in ask(model, tokenizer, "What is a radix tree?", system=LONG_SYSTEM)
