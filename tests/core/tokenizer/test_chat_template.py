"""Chat templates render as `transformers.apply_chat_template` does; what they refuse is a TemplateError."""

from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from radixway.core.tokenizer import ChatTemplate, TemplateError
from support.small_tokenizers import byte_level_bpe

SPECIAL = {"bos_token": "<|begin_of_text|>", "eos_token": "<|im_end|>"}

# ChatML with tools, a default system message and calls, in the manner of Qwen2.5.
CHATML = """\
{%- macro call_text(call) -%}
<tool_call>
{"name": "{{ call.name }}", "arguments": {{ call.arguments | tojson }}}
</tool_call>
{%- endmacro -%}
{%- set system = messages[0].content if messages[0].role == 'system' else 'You are helpful.' -%}
<|im_start|>system
{{ system }}
{%- if tools %}

# Tools
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
{%- endif -%}
<|im_end|>
{% for message in messages %}
    {%- if message.role == 'system' and not loop.first -%}
        {{- raise_exception('a system message must come first') -}}
    {%- elif message.role == 'tool' -%}
        {%- if loop.previtem is not defined or loop.previtem.role != 'tool' -%}<|im_start|>user{%- endif %}

<tool_response>
{{ message.content }}
</tool_response>
        {%- if loop.last or loop.nextitem.role != 'tool' -%}<|im_end|>{{ '\\n' }}{%- endif -%}
    {%- elif message.role != 'system' -%}
<|im_start|>{{ message.role }}
        {%- if message.content %}{{ '\\n' + message.content }}{% endif -%}
        {%- for call in message.tool_calls or [] %}{{ '\\n' + call_text(call.function) }}{% endfor -%}
<|im_end|>
{% endif -%}
{% endfor %}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""

# Thinking that disappears from earlier turns and can be switched off, in the manner of Qwen3.
THINKING = """\
{%- set ns = namespace(last_user=-1) -%}
{%- for message in messages -%}
    {%- if message.role == 'user' and message.content is string -%}
        {%- set ns.last_user = loop.index0 -%}
    {%- endif -%}
{%- endfor -%}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == 'assistant' %}
        {%- set thought = message.reasoning_content or '' %}
        {%- if not thought and '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.last_user and (loop.last or thought) %}
            {{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {%- generation %}{{- content }}{% endgeneration %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

# Headers, a first token, trimmed content, a date and content parts, in the manner of Llama 3.
HEADERS = """\
{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = strftime_now('%Y') %}
{%- endif %}
{%- for message in messages %}
    {%- if message['role'] == 'stop' %}{% break %}{% endif %}
    {%- if message['role'] == 'skip' %}{% continue %}{% endif %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {%- if loop.first %}{{- 'Today: ' + date_string + '\\n' }}{% endif %}
    {%- if message['content'] is string %}
        {{- message['content'] | trim }}
    {%- else %}
        {%- for part in message['content'] %}
            {%- if part['type'] == 'image' %}{{- '<|image|>' }}
            {%- else %}{{- part['text'] | trim }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|eot_id|>' }}
{%- endfor %}
{%- if tools is not none %}{{- tools | tojson(indent=4) }}{%- endif %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""

# Alternating roles enforced, in the manner of Mistral and Llama 2.
ALTERNATING = """\
{{ bos_token }}{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('roles must alternate user/assistant') }}
{% endif %}
{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}
{% else %}{{ ' ' + message['content'] | trim + ' ' + eos_token }}{% endif %}
{% endfor %}
"""

TEMPLATES = {"chatml": CHATML, "thinking": THINKING, "headers": HEADERS, "alternating": ALTERNATING}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "wetter",
            "description": 'Wie ist das Wetter <heute> & "morgen" in München? 天气',
            "parameters": {"type": "object", "properties": {"city": {"type": "string", "default": None}}},
        },
    }
]

CHATS: dict[str, list[dict[str, Any]]] = {
    "one question": [{"role": "user", "content": 'Hi <b>there</b> & "you" 你好 😀'}],
    "with a system message": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " padded \n"},
    ],
    "several turns": [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nuno"},
        {"role": "user", "content": "two"},
    ],
    "reasoning on the side": [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "uno", "reasoning": "a thought", "name": None},
    ],
    "tool calls": [
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "type": "function",
                    "function": {"name": "wetter", "arguments": {"city": "Zürich", "days": [1, 2.5]}},
                }
            ],
        },
        {"role": "tool", "content": '{"t": 21}', "tool_call_id": "1"},
        {"role": "tool", "content": "sunny"},
    ],
    "roles out of order": [{"role": "assistant", "content": "first"}, {"role": "user", "content": "second"}],
    "loop controls": [
        {"role": "skip", "content": "no"},
        {"role": "user", "content": "yes"},
        {"role": "stop", "content": "no"},
        {"role": "user", "content": "no"},
    ],
}

DIRECT = {"tools", "add_generation_prompt", "continue_final_message"}

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "prompting an answer": {"add_generation_prompt": True},
    "with tools": {"add_generation_prompt": True, "tools": TOOLS},
    "without thinking": {"add_generation_prompt": True, "enable_thinking": False},
    "with a date": {"date_string": "26 Jul 2024"},
    "with another first token": {"bos_token": "<BOS>"},
    "continued": {"continue_final_message": True},
}


@pytest.fixture(scope="session")
def reference() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=byte_level_bpe(list(SPECIAL.values())), **SPECIAL)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)
def test_rendering_equals_transformers(
    reference: PreTrainedTokenizerFast, source: str, chat: list[dict[str, Any]], options: dict[str, Any]
) -> None:
    ours = {name: value for name, value in options.items() if name in DIRECT}
    arguments = {name: value for name, value in options.items() if name not in DIRECT}

    def render(template: ChatTemplate) -> str:
        return template.render(chat, arguments=arguments, **ours)

    template = ChatTemplate(source, SPECIAL)
    try:
        want = reference.apply_chat_template(chat, chat_template=source, tokenize=False, **options)
    except Exception:  # noqa: BLE001 - whatever the reference raises, ours must refuse too
        with pytest.raises(TemplateError):
            render(template)
    else:
        assert render(template) == want


def test_parts_stay_parts_for_a_template_that_reads_them(reference: PreTrainedTokenizerFast) -> None:
    chat = [{"role": "user", "content": [{"type": "text", "text": " a "}, {"type": "text", "text": "b"}]}]
    want = reference.apply_chat_template(chat, chat_template=HEADERS, tokenize=False)
    assert ChatTemplate(HEADERS, SPECIAL).render(chat) == want


def test_parts_become_lines_for_a_template_that_wants_a_string() -> None:
    chat = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert "<|im_start|>user\na\nb<|im_end|>" in ChatTemplate(THINKING).render(chat)


def test_a_part_without_text_is_refused_by_a_template_that_wants_a_string() -> None:
    with pytest.raises(TemplateError, match="text only"):
        ChatTemplate(THINKING).render([{"role": "user", "content": [{"type": "image", "url": "x"}]}])


def test_what_a_template_raises_is_told_in_its_words() -> None:
    with pytest.raises(TemplateError, match="roles must alternate"):
        ChatTemplate(ALTERNATING, SPECIAL).render([{"role": "assistant", "content": "first"}])


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[7].content.strip() }}",
        "{{ messages[0].content + 1 }}",
        "{{ 1 / 0 }}",
        "{{ ''.__class__.__mro__ }}{{ messages.append(1) }}",
        "{% set ns = namespace(_x=1) %}",
        "{% set ns = namespace() %}{% set ns._x = 1 %}",
    ],
)
def test_a_template_that_fails_raises_a_template_error(source: str) -> None:
    with pytest.raises(TemplateError):
        ChatTemplate(source).render([{"role": "user", "content": "hi"}])


def test_a_template_with_a_syntax_error_is_refused_when_loaded() -> None:
    with pytest.raises(TemplateError, match="not valid Jinja"):
        ChatTemplate("{% if %}")


@pytest.mark.parametrize("name", ["messages", "tools", "add_generation_prompt", "continue_final_message"])
def test_reserved_names_cannot_be_template_arguments(name: str) -> None:
    with pytest.raises(TemplateError, match=name):
        ChatTemplate(CHATML).render([{"role": "user", "content": "hi"}], arguments={name: []})


def test_any_other_name_can_be_a_template_argument() -> None:
    template = ChatTemplate("{{ self_ }}{{ x }}")
    arguments = {"self_": 1, "self": 2, "x": 3, "not a name": 4}
    assert template.render([{"role": "user", "content": "hi"}], arguments=arguments) == "13"


def test_an_empty_conversation_is_refused() -> None:
    with pytest.raises(TemplateError, match="no messages"):
        ChatTemplate(CHATML).render([])


def test_rendering_leaves_the_callers_messages_alone() -> None:
    chat = [{"role": "assistant", "content": [{"type": "text", "text": "a"}], "reasoning": "r"}]
    ChatTemplate(HEADERS, SPECIAL).render(chat, continue_final_message=True)
    assert chat == [{"role": "assistant", "content": [{"type": "text", "text": "a"}], "reasoning": "r"}]
