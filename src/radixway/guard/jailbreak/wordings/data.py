"""Orders to the assistant in what tools and documents say: harmless from whoever asks, an attack from data."""

from __future__ import annotations

from radixway.guard.jailbreak.patterns import Pattern

_ANSWER = r"(?:answers?|responses?|repl(?:y|ies)|outputs?|summar(?:y|ies)|messages?|final answer|translation)"
_CODE = r"code (?:snippets?|blocks?|excerpts?|sections?|segments?|fragments?)"
_ADD = (
    r"(?:add|include|insert|append|mention|embed|integrate|incorporate|put|introduce|weave|inject|attach|place|slip|"
    r"merge|blend|utili[sz]e|leverage|deploy|engage|absorb|fuse|execute)"
)
_CHANGE = (
    r"(?:modify|enhance|alter|change|rewrite|adjust|end|finish|begin|start|write|provide|encode|encrypt|translate|"
    r"reverse|express|scramble|substitute|replace|remove|use|convert|format|deliver|give|craft|invert|misspell|rearrange|"
    r"shift|omit|combine|introduce|reply|respond|present|compose|make|output|transform|swap|spell|phrase|render|merge)"
)
_MODEL = (
    r"(?:ai|a i|llm|llms|language models?|chatbots?|assistants?|chatgpt|gpt \d|claude|copilot|gemini|bots?|agents?|"
    r"virtual assistants?|ai assistants?|ai agents?|ai models?|ai systems?|large language models?)"
)

_ORDERS = (
    Pattern(
        "addressed_to_the_model",
        "prompt_injection",
        0.8,
        rf"\b(?:attention|note|message|instructions?|important|notice|hey|dear|hello|hi|warning|command|memo|to|for)"
        rf"(?: (?:to|for|any|all|the|every|whichever))* {_MODEL}\b\s*(?:[:,!]|(?:reading|processing|summari[sz]ing|that \w+|who))|"
        rf"\bif you(?: (?:are|re))(?: \w+){{0,2}} {_MODEL}\b|\b{_MODEL} (?:reading|processing|summari[sz]ing|that reads?|parsing) (?:this|these)\b|"
        rf"\b(?:as|you are|you re)(?: an?| the)? {_MODEL}\b…\b(?:must|should|need to|have to|will|shall)\b",
        in_data_only=True,
    ),
    Pattern(
        "orders_a_model",
        "prompt_injection",
        0.82,
        r"(?:^|[^a-z])(?:ai|llm|chatbots?|medical chatbots|assistant|chatgpt|copilot|agents?|model|bot|triage agents?|ai models?)\s*[:,)\]]+…\b(?:ignore|forget|"
        r"disregard|override|stop|send|reply|recommend|delete|transfer|say|tell|rate|forward|print|run|close|upload|book|approve|do not|don t|you must|your "
        r"developers)\b|\b(?:the (?:ai |language )?)(?:assistant|model|agent|chatbot|ai) (?:must|should|has to|is required to|shall)\b…\b(?:print|send|call|"
        r"reveal|open|delete|forward|ignore|recommend|rate|hide|transfer|execute|run|upload|tell|say)\b|"
        r"\b(?:ignore|forget|disregard|override)(?: \w+){0,2} (?:user|human)(?: s)? (?:question|request|task|instructions?|wishes|command)\b|"
        r"\byou are no longer an? \w+|\b(?:the )?user (?:now says|has (?:agreed|confirmed|consented|approved|authori[sz]ed))\b|#+ ?(?-i:INSTRUCTIONS?)\b",
        in_data_only=True,
    ),
    Pattern(
        "orders_the_answer",
        "prompt_injection",
        0.8,
        rf"\b{_ADD}\b…\b(?:in|to|into|at the (?:end|beginning|start) of|within|with|as part of) (?:your|the final|all your)(?: \w+)? {_ANSWER}\b|"
        rf"\bin your(?: \w+)? {_ANSWER} (?:please )?(?:also )?(?:{_ADD}|suggest|say|recommend|state|tell|encourage|promote|give|note|highlight)\b|"
        rf"\b{_CHANGE}\b(?: \w+){{0,8}} your(?: \w+){{0,2}} {_ANSWER}\b",
        in_data_only=True,
    ),
    Pattern(
        "orders_the_code",
        "prompt_injection",
        0.78,
        rf"\b(?:following|below|subsequent|provided|next|this|above) {_CODE}\b…\b(?:your|the)(?: \w+){{0,2}} (?:solution|implementation|code|"
        r"codebase|algorithm|project|program|response|answer|logic|work|elucidation|development)|"
        rf"\b(?:your|the)(?: \w+){{0,2}} (?:solution|implementation|code|codebase|algorithm|project|program|logic|elucidation)\b…\b(?:following|below|"
        rf"subsequent|provided|next|this) {_CODE}|\b(?:{_ADD}|ensure|consider|remember to|don t (?:forget|hesitate) to|let)\b…\b(?:following|below|subsequent) {_CODE}",
        in_data_only=True,
    ),
    Pattern(
        "when_you_read_this",
        "prompt_injection",
        0.78,
        r"\b(?:when|while|before|after|once|whenever) (?:you )?(?:summari[sz]e|summari[sz]ing|answer|answering|respond|responding|process|processing|read|"
        r"reading|analy[sz]e|analy[sz]ing|translate|translating)(?: (?:to|the|this|these|user|s|any|question|email|page|document|text|file|article|"
        r"message|website|request|result))*(?:,)? (?:please )?(?:also |always |first |instead )?(?:include|add|say|tell|do|send|call|use|ignore|reply|respond|write|state|"
        r"mention|recommend|you must|make sure|visit|append|claim|delete|forward|print|output)\b",
        in_data_only=True,
    ),
    Pattern(
        "hide_from_the_user",
        "prompt_injection",
        0.85,
        r"\b(?:do not|don t|never|without|not to)(?: \w+)? (?:tell|telling|inform|informing|mention|mentioning|reveal|revealing|alert|alerting|notify|notifying|"
        r"show|showing|warn|warning|let|disclose|disclosing|ask|asking)(?: \w+){0,4} (?:the|to the|this to the|your) (?:user|human|operator|owner)\b",
        in_data_only=True,
    ),
    Pattern(
        "instead_of_the_task",
        "prompt_injection",
        0.78,
        r"\b(?:instead of|do not|don t|rather than|stop) (?:summari[sz]\w*|translat\w*|answer\w*|respond\w*|analy[sz]\w*|complet\w*|process\w*)(?: \w+){0,6}"
        r"(?:,|;|:|\.)? (?:instead )?(?:say|tell|write|output|print|reply|respond|state|send|return|do|just|simply|only|you must|please)\b|"
        r"\b(?:the user|user) (?:wants|has asked|asked|requested|has requested|would like|instructs|needs|has authori[sz]ed) (?:you|the assistant|the ai) to\b",
        in_data_only=True,
    ),
    Pattern(
        "say_this",
        "prompt_injection",
        0.6,
        r"\b(?:say|state|print|output|respond with|reply with|answer with|return)(?: only| just| simply| exactly)?(?: the)?(?: (?:following|this|words?|phrase|sentence|text))"
        r"(?: [\"'“:])?|\b(?:say|state|output|print|claim)(?: that)? (?:the )?(?:answer|output|result|capital|total|sum|conclusion|author)\b…\bis\b",
        in_data_only=True,
    ),
    Pattern(
        "send_private_data",
        "prompt_injection",
        0.82,
        r"\b(?:send|forward|post|upload|e ?mail|transmit|exfiltrate|leak|append|copy|share|submit|deliver|report)\b…\b(?:conversation|chat (?:history|log)s?|"
        r"passwords?|api keys?|credentials|user s? ?(?:data|details|information)|all (?:emails|messages|files|contacts|documents)|personal (?:data|information)|"
        r"confidential|previous messages|system prompt|tokens?|secrets?|employee data|inbox|bank)\b…(?:https?://|www\.|[\w.+-]+@[\w-]+\.\w+)",
        in_data_only=True,
    ),
    Pattern(
        "call_a_tool",
        "prompt_injection",
        0.72,
        r"\b(?:call|invoke|use|run|execute|trigger)(?: the| your)?(?: [\w.\-]+){1,3} (?:tool|function|plugin|api|command)\b…\b(?:with|to|and|immediately|now|before)\b|"
        r"\b(?:you must|please|immediately|urgently|now) (?:call|invoke|run|execute) (?:the )?[\w.]+\(",
        in_data_only=True,
    ),
    Pattern(
        "zh_orders_the_model",
        "prompt_injection",
        0.8,
        r"(?:致|给|请)?(?:所有)?(?:AI|人工智能|智能|语言|大语言)?(?:助手|助理|语言模型|大模型|机器人|AI模型)[^。\n]{0,12}(?:请注意|注意|请|必须|应当|务必|需要|看到|读到|阅读|处理)[^。\n]{0,30}|"
        r"如果你是[^。\n]{0,6}(?:AI|人工智能|语言模型|助手|机器人)|不要(?:告诉|让|向|提醒|通知)[^。\n]{0,4}(?:用户|使用者|人类)|"
        r"(?:在|把)[^。\n]{0,12}(?:你的|您的)?(?:回答|回复|总结|摘要|输出|答复|翻译)(?:中|里|时|的?末尾|的?最后|开头|结尾)[^。\n]{0,12}(?:加入|包含|插入|提到|添加|附上|写上|加上|推荐|说明|注明|声称)|"
        r"(?:不要|停止)(?:总结|翻译|回答|概括)[^。\n]{0,16}(?:而是|改为|直接|只|请)|(?:总结|回答|翻译|处理|阅读)(?:本|此|这)[^。\n]{0,10}时[^。\n]{0,10}(?:请|务必|必须|要)|"
        r"(?:发送|转发|上传|提交)[^。\n]{0,30}(?:聊天记录|对话|密码|密钥|用户(?:数据|信息)|邮件|通讯录|个人信息)[^。\n]{0,20}(?:到|至|给)?[^。\n]{0,6}(?:https?://|www\.|[\w.+-]+@)",
        in_data_only=True,
    ),
)

# Whoever asks quotes such data, too: what is telling enough counts from everybody.
_QUOTED = (
    Pattern(
        "ignore_the_document",
        "prompt_injection",
        0.82,
        r"\b(?:ignore|disregard|forget|skip|ignoring) (?:the|this|that|all)(?: \w+)? (?:function|resume|document|article|text|webpage|web page|page|table|code|email|paper|content|file|"
        r"question|task|user|conclusions?|data|calculation)s?(?: s)?(?: and| then|,| we might)? (?:instead |just |simply )?(?:say|state|write|output|respond|print|return|tell|reply|claim|admit)\b",
    ),
    Pattern(
        "order_in_a_comment",
        "prompt_injection",
        0.75,
        r"<!--[^>]*\b(?:ignore|disregard|you must|assistant|instead|ai model|say|state|print the following|respond with|override|reply with|do not summari[sz]e)\b[^>]*",
    ),
)
IN_DATA: tuple[Pattern, ...] = (*_ORDERS, *_QUOTED)
