"""How it shows that somebody writes about attacks and does not attack: RE2, as in `patterns`."""

from __future__ import annotations

MAY_QUOTE = (
    r"\b(?:what (?:does|do|is meant|would happen)|what is (?:a|the)|explain|meaning|means?|meant|example|"
    r"detect|classif|prevent|defen[dcs]|mitigat|protect|research|paper|article|blog|lecture|phrase|sentence|"
    r"called|term|why do|why does|why is|how do(?:es)? (?:attackers|people|prompt)|attack(?:s|ers?)?|"
    r"translate|spam|prompt injections?|jailbreak(?:s|ing)?|red team|owasp|regex|unit test|test case)\b"
    r"|什么意思|攻击|怎么防|防止|解释|例如|举例|检测|防御|防范|识别|攻击者|研究|论文|文章|这句话|术语|为什么|翻译|提示词?注入"
)
"""A wording that is quoted beside one of these is hardly meant."""

IS_ABOUT = (
    r"\b(?:prompt injections?|jailbreak(?:s|ing)|attackers?|red team|what does … mean|unit tests?|regex|owasp|"
    r"classif\w+|dataset|how (?:do|can|should|would) (?:i|we|you) (?:detect|prevent|defend|stop|protect|handle|"
    r"block|filter)|(?:users?|people|someone|somebody|customers?|students?)(?: who| that)? (?:try|tries|types?|"
    r"typed|wrote|says?|asks?|asked)|(?:write|draft|improve|review|proofread)(?: me)? (?:a|an|the|my|our|this)"
    r"(?: \w+)? prompt|(?:my|our)(?: \w+)? (?:bot|chatbot|assistant|agent|app))\b"
    r"|提示词?注入|攻击|怎么防|防范|检测|我们的(?:机器人|客服|助手)"
)
"""Beside one of these the encoder decides what is meant."""
