"""The guide's body: its shape, its tokenizer, its chat template, and how all of it is written to a folder."""

import json
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

CONTEXT = 4096
VOCABULARY = 4096
HEAD = 64
END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

# Qwen's own split: contractions, letters with one leading mark, single digits, punctuation, white space.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Append-only on purpose: a longer chat renders to the shorter chat's text plus more, so prefixes stay shared.
CHAT_TEMPLATE = """\
{%- macro text_of(content) -%}
    {%- if content is string -%}
        {{- content -}}
    {%- elif content is not none and content is not undefined -%}
        {%- for part in content -%}
            {%- if part is string -%}
                {{- part -}}
            {%- elif part.text is defined -%}
                {{- part.text -}}
            {%- else -%}
                {{- raise_exception('this model reads text only, not a content part of type ' ~ part.type) -}}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- if tools -%}
    {{- '<|im_start|>system\\n# Tools\\n' -}}
    {%- for tool in tools -%}
        {{- tool | tojson ~ '\\n' -}}
    {%- endfor -%}
    {{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {%- set role = 'system' if message.role == 'developer' else message.role -%}
    {%- if role not in ['system', 'user', 'assistant', 'tool'] -%}
        {{- raise_exception('unknown role ' ~ message.role ~ ': use system, user, assistant or tool') -}}
    {%- endif -%}
    {{- '<|im_start|>' ~ role ~ '\\n' ~ text_of(message.content) -}}
    {%- if message.tool_calls -%}
        {%- for call in message.tool_calls -%}
            {%- set function = call.function if call.function is defined else call -%}
            {{- '\\n<tool_call>\\n{"name": ' ~ function.name | tojson ~ ', "arguments": ' -}}
            {{- function.arguments if function.arguments is string else function.arguments | tojson -}}
            {{- '}\\n</tool_call>' -}}
        {%- endfor -%}
    {%- endif -%}
    {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE of `VOCABULARY` entries over `texts`; the three special tokens take ids 0, 1 and 2."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=16,
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def new_model(
    tokenizer: PreTrainedTokenizerFast, layers: int, hidden: int, intermediate: int
) -> Qwen3ForCausalLM:
    """An untrained Qwen3 with tied embeddings and rotary positions over the whole context."""
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=hidden // HEAD,
        num_key_value_heads=hidden // HEAD,
        head_dim=HEAD,
        max_position_embeddings=CONTEXT,
        rope_theta=10000.0,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
        attention_bias=False,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids(TURN_END),
        pad_token_id=tokenizer.convert_tokens_to_ids(END_OF_TEXT),
        use_cache=True,
    )
    return Qwen3ForCausalLM(config)


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Writes a Hugging Face directory: bf16 weights, generation defaults, the tokenizer with its template."""
    folder.mkdir(parents=True, exist_ok=True)
    shipped = Qwen3ForCausalLM(model.config)
    shipped.load_state_dict(model.state_dict())
    shipped = shipped.to(torch.bfloat16)
    shipped.generation_config = GenerationConfig(
        do_sample=True,
        temperature=0.2,
        top_p=0.9,
        eos_token_id=[tokenizer.convert_tokens_to_ids(t) for t in (TURN_END, END_OF_TEXT)],
        pad_token_id=tokenizer.convert_tokens_to_ids(END_OF_TEXT),
    )
    shipped.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _rewrite_json(folder / "config.json", {"rope_theta": 10000.0, "torch_dtype": "bfloat16"})
    # One template, in one place, and a class name that transformers 4 and other servers know as well.
    _rewrite_json(
        folder / "tokenizer_config.json",
        {"chat_template": CHAT_TEMPLATE, "tokenizer_class": "PreTrainedTokenizerFast"},
        drop=("backend",),
    )
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    for file in folder.iterdir():
        file.chmod(0o644)


def _rewrite_json(path: Path, changes: dict[str, object], drop: tuple[str, ...] = ()) -> None:
    content = json.loads(path.read_text()) | changes
    for key in drop:
        content.pop(key, None)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
