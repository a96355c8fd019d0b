"""The words by which parts of a prompt are known: labels, tags, instructions about the answer, questions."""

from __future__ import annotations

import re
from typing import Literal

LabelKind = Literal["ask", "data", "answer", "style"]


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip().replace("_", " ") for word in text.split("|"))


_ASK_STRENGTH = {
    3: _words(
        "question|query|q|user|human|user query|user question|user request|user message|user input|user prompt"
        "|user says|customer question|student question|current question|new question"
        "|follow up question|follow-up question|standalone question|input question|final question|my question"
        "|问题|提问|用户|用户问题|用户提问|用户输入|问|题目|当前问题|我的问题"
    ),
    2: _words(
        "instruction|task|request|problem|exercise|prompt|message|feedback|goal|objective|ask|description"
        "|problem statement|issue|ticket|指令|任务|请求|需求|描述|要解决的问题|习题|消息"
    ),
    1: _words("input|输入|text input"),
}
_OTHER_LABELS: dict[LabelKind, frozenset[str]] = {
    "data": _words(
        "context|contexts|context information|document|documents|doc|passage|passages|article|source|sources"
        "|search results|results|background|reference|references|history|chat history|conversation"
        "|conversation history|previous conversation|notes|observation|thought|action|action input|example"
        "|examples|excerpt|retrieved context|retrieved documents|knowledge|knowledge base|transcript"
        "|summary|memory|memories|environment|environment details|tools|available tools|file|files|code"
        "|上下文|背景|背景信息|资料|参考|参考资料|文档|文章|材料|已知信息|已知内容|检索结果|搜索结果|历史|历史对话"
        "|对话历史|示例|例子|知识库|工具"
    ),
    "answer": _words(
        "answer|a|helpful answer|assistant|ai|bot|response|final answer|output|reply|model|standalone answer"
        "|your answer|your response|solution|completion|助手|回答|答案|答|输出|回复|你的回答|客服"
    ),
    "style": _words(
        "guidelines|guideline|rules|format|output format|response format|constraints|requirements|checklist"
        "|instructions|style|tone|notes to the assistant|important|note|priority|assignee|status|labels|due"
        "|acceptance criteria|answer format|steps|hints|hint|role|persona|system|language|max words"
        "|要求|格式|输出格式|规则|约束|注意|注意事项|说明|角色|优先级|语言|风格|提示"
    ),
}
_KIND_OF: dict[str, LabelKind] = {
    label: kind for kind, labels in _OTHER_LABELS.items() for label in labels
} | {label: "ask" for labels in _ASK_STRENGTH.values() for label in labels}
_STRENGTH_OF = {label: strength for strength, labels in _ASK_STRENGTH.items() for label in labels}
_NUMBERED = re.compile(r"[\s#]*\d{1,3}$|^(?:the|your|my|here is the)\s+")


def label_kind(label: str) -> LabelKind | None:
    """Return what a part under this label is, if it is known: `Context 2` is data as `Context` is.

    `q` and `a` are names of variables; `Q` and `A` are labels.
    """
    return _KIND_OF.get(_plain_label(label)) if len(label) > 1 or not label.islower() else None


def label_strength(label: str) -> int:
    """Return how surely a part of kind `ask` is the ask: 3 for a question, 1 for an input."""
    return _STRENGTH_OF.get(_plain_label(label), 0)


def _plain_label(label: str) -> str:
    plain = label.strip(" *_#:：()[]").replace("_", " ").replace("-", " ").casefold()
    return _NUMBERED.sub("", plain).strip()


ASK_TAGS = _words(
    "question|query|task|user query|userquery|user question|user request|userrequest|user message|user input"
    "|user prompt|request|prompt|ask|instruction|problem|feedback|user|human|message|input|issue"
)
HTML_TAGS = frozenset(
    """a abbr article aside audio b blockquote body br button canvas caption center cite code col dd del details
    div dl dt em fieldset figure font footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img ins kbd label
    legend li link main mark meta nav ol option p pre q s samp script section select small span strong style sub
    sup svg table tbody td template textarea tfoot th thead title tr tt u ul var video""".split()
)
"""Names of tags that people write about; the others set parts apart."""


def tag_name(name: str) -> str:
    """Return a tag's name as `ASK_TAGS` has them."""
    return name.replace("_", " ").replace("-", " ").casefold()


# ---------------------------------------------------------------- sentences

_ABOUT_THE_ASK = (
    r"question|query|queries|problem|request|message|task|exercise|prompt|instructions?|user|customer|student|json"
    r"|conversation|dialogue|chat"
)
_FRAME = re.compile(
    rf"""
      \b(?:answer|respond\ to|reply\ to|solve|address|handle|complete|consider|read|take)\b[^?]{{0,40}}
        \b(?:following|below|above|provided|given|this|these|the|user'?s|customer'?s|their|at\ the\ end)\b
        [^?]{{0,60}}\b(?:{_ABOUT_THE_ASK})\b
    | ^(?:here|below|the\ following|following|this)\b[^?]{{0,30}}\b(?:is|are|comes?)\b[^?]{{0,60}}
        \b(?:{_ABOUT_THE_ASK}|questions|context|documents?|excerpts?|passages?)\b
    | \b(?:use|using|given|based\ on|from)\b[^?]{{0,40}}\b(?:context|retrieved|documents?|excerpts?|sources?|pieces)\b
        [^?]{{0,80}}\b(?:answer|respond|reply|question|query)\b
    | ^you\ (?:are|act\ as|work\ as)\b[^?]{{0,120}}\b(?:assistant|expert|tutor|teacher|professor|agent|bot|chatbot|helper
        |specialist|engineer|developer|programmer|scientist|doctor|lawyer|analyst|advisor|consultant|translator|writer|editor
        |librarian|model|ai|mathematician|historian|economist|philosopher|psychologist|physicist|chemist|biologist|officer)\b
    | ^you\ (?:will\ (?:receive|be\ given|get|see)|have\ access)\b
    | ^(?:please\ )?(?:be|keep|stay|make\ sure|remember|note|ensure)\b[^?]{{0,60}}\b(?:answers?|response|reply|it\ (?:short|brief|simple
        |under)|concise|brief|short|polite|words|sentences|formal|friendly|professional|helpful|accurate|truthful|to\ the\ point
        |language|instructions)\b
    | ^(?:please\ )?(?:write|return|output|give|provide|speak)\b[^?]{{0,24}}\b(?:the\ (?:final\ )?answer|your\ (?:final\ )?answer
        |an\ answer|only|json|in\ (?:plain\ )?(?:english|chinese|json|markdown))\b
    | ^(?:please\ )?(?:reply|respond|answer)\b[^?]{{0,40}}
        \b(?:in\ (?:english|chinese|german|french|spanish|the\ (?:same\ )?language|json|markdown|plain|at\ most|no\ more
        |under|\w+\ (?:words|sentences))|politely|concisely|briefly|only|json|format|concise|short|clearly|honestly
        |step\ by\ step|the\ (?:final\ )?answer|your\ answer|an\ answer|as\ best)\b
    | ^(?:if|when|as)\b[^?]{{0,120}}\b(?:don't\ know|do\ not\ know|unclear|ambiguous|unsure|not\ sure|unreadable|cannot|can't
        |you\ answer|say\ (?:so|which|that)|clearly\ state|inform|context|user'?s)\b
    | ^(?:do\ not|don't|never|always|avoid|include|use|ignore|cite)\b[^?]{{0,100}}
        \b(?:answer|answers|instructions?|sentences?|words|language|tone|bullet|markdown|mention|citations?|sources?|emoji
        |apologi[sz]e|repeat|make\ up|prior\ knowledge|jargon)\b
    | ^(?:write|provide|give|generate|return)\ (?:a|an|the|your)\ (?:\w+\ ){{0,3}}(?:response|answer|reply)\b
    | ^(?:let'?s\ )?(?:think|work|reason)\b[^?]{{0,30}}\bstep[ -]by[ -]step\b
    | ^begin!?$ | ^(?:thank\ you|thanks|thx|cheers|best|kind\ regards|regards|sincerely|best\ regards)\b[^?]{{0,40}}$
    | ^(?:hi|hello|hey|dear|good\ (?:morning|afternoon|evening))(?:\ (?!how|what|can|is|are|do)\w+){{0,3}}[,.!]?$
    | ^today\ is\b | ^the\ (?:assistant|ai|answer|response)\ (?:is|should|must|gives)\b
    | ^(?:你好|您好|谢谢|多谢|此致|敬礼)[^？?]{{0,12}}$
    | ^(?:请|麻烦|帮我|帮忙)?(?:认真|仔细|尽量|直接|准确|简要|简洁|用心)?(?:地)?(?:回答|解答|答复|回复|解决|阅读|处理|思考)
        [^？?]{{0,24}}(?:问题|提问|题目|请求|用户|下面|以下|如下|上述)
    | ^(?:请)?(?:根据|基于|参考|利用|结合)[^？?]{{0,24}}(?:上下文|资料|已知|文档|材料|信息|内容)[^？?]{{0,30}}(?:回答|解答|作答|问题)
    | ^(?:回答|答案|回复|语气|输出)(?:要|应|须|必须|时|请|需)
    | ^(?:请)?(?:只|仅)?(?:用|使用|以)[^？?]{{0,12}}(?:回答|作答|回复|输出|格式|语言)
    | ^(?:你|您)(?:是|现在是|将扮演|扮演)[^？?]{{0,40}}$
    | ^(?:如果|若)[^？?]{{0,30}}(?:不知道|不清楚|不确定|无法)
    | ^(?:不要|请勿|不得|务必|注意|请注意)[^？?]{{0,60}}$
    | ^(?:字数|长度|篇幅|回答|答案|回复)[^？?]{{0,20}}(?:不超过|不多于|控制在|少于)[^？?]{{0,10}}(?:字|句)
    | ^(?:请)?(?:一步一步|逐步|分步骤?)(?:地)?(?:思考|推理|分析|解答|回答)
    | ^以下是[^？?]{{0,20}}(?:问题|题目|对话|资料|内容|上下文)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_ASKS = re.compile(
    r"""[?？][\s"'”’)\]]*$
    | ^(?:please\ |kindly\ |now\ |then\ |also\ )?(?:(?:can|could|would|will)\ you\ |help\ me\ (?:to\ )?|i\ (?:want|need|would\ like|'d\ like)\ (?:you\ )?to\ )?
      (?:add|advise|analy[sz]e|arrange|assess|brainstorm|build|calculate|check|choose|classify|code|compare|complete|compose
      |compute|construct|consider|convert|correct|count|create|critique|debug|define|derive|describe|design|detect
      |determine|develop|diagnose|discuss|draft|draw|edit|estimate|evaluate|examine|expand|explain|extract|figure
      |fill|find|fix|generate|give|guess|help|identify|illustrate|implement|improve|infer|interpret|integrate|judge|justify
      |list|make|modify|name|optimi[sz]e|outline|paraphrase|plan|plot|predict|prepare|propose|prove|provide|rank|rate
      |recommend|refactor|rephrase|review|revise|rewrite|show|simplify|simulate|sketch|solve|sort|state|suggest|summari[sz]e
      |teach|tell|test|train|transform|translate|verify|walk|what|when|where|which|who|whom|whose|why|how|is|are|was|were|do|does
      |did|can|could|should|would|will|may|might|has|have|write)\b
    | 吗|呢|什么|怎么|怎样|如何|为什么|为何|多少|哪[些个里种一位年]|是否|几[个年种次]|谁
    | ^(?:请|帮我|帮忙|麻烦)?(?:你|您)?(?:解释|说明|证明|计算|写|翻译|总结|列出|比较|分析|推荐|介绍|描述|求|设计|修改|生成|给出|判断|简述|概括|推导|编写)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_REFERS = re.compile(
    r"""^(?:please\ |can\ you\ |could\ you\ )?(?:summari[sz]e|translate|proofread|paraphrase|rephrase|rewrite|shorten|simplify|classify
      |edit|review|fix|debug|refactor|correct|tl;?dr)\b[^"“:]{0,30}$
    | \b(?:this|these|the\ (?:following|above|attached|quoted|given|provided))\s(?:\w+\s){0,2}?(?:text|passage|article|document|e-?mail
      |message|letter|conversation|chat|transcript|log|code|function|snippet|script|paragraph|essay|abstract|report|story|poem|table
      |data|list|json|file|contract|review|error|traceback|output|sentences?|notes|minutes)\b
    | \bthe\s(?:text|passage|article|document|e-?mail|author|paragraph|transcript|abstract|speaker|narrator)\b
    | \b(?:above|below)\b[.:?]?$ | ^what\ (?:does|is)\ (?:this|it|that)\b | ^(?:is|does|was)\ (?:this|that)\b
    | ^(?:请|帮我)?(?:总结|翻译|润色|改写|缩写|概括|校对)[^：“"]{0,12}$ | 上文|上述|上面的|下面的|这[段篇封份首些](?:文|话|邮件|代码|对话|内容|材料|报告)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FIRST_PERSON = re.compile(r"\b(?:I|I'm|I've|i'm|i've|my|My|me|we|We|our|Our)\b|我")
_LONG_WORDS = re.compile(r"[^\W\d_]{6,}")
_COMMON = frozenset(
    """about above according across after against always among another around because become before began behind being below
    between both called cannot could different during either enough every example first following found given however include
    including known large later little might number often other others people please possible question really result rather
    should shall since small something still system there these thing things think those though through together toward under
    until usually various where whether which while whose within without would years""".split()
)
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])[\"'”’)]*\s+|(?<=[。！？!?；])")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of `text`, without those that are empty."""
    return [each.strip() for each in _SENTENCE_ENDS.split(text) if each.strip()]


def is_frame(sentence: str) -> bool:
    """Return whether a sentence says how to answer, who the assistant is, or that a question follows."""
    return _FRAME.search(sentence[:400]) is not None


def asks(sentence: str) -> bool:
    """Return whether a sentence is a question or tells to do something."""
    return _ASKS.search(sentence[-400:] if sentence.rstrip("\"'”’)] ")[-1:] in "?？" else sentence[:400]) is not None


def refers_to_data(text: str) -> bool:
    """Return whether an ask is about a text beside it, as "Summarize this" is."""
    return _REFERS.search(text[:2000]) is not None


def is_impersonal(text: str) -> bool:
    """Return whether hardly anybody speaks of themselves, as in a passage of an article."""
    return len(_FIRST_PERSON.findall(text)) * 400 <= len(text)


def shares_words(ask: str, data: str) -> bool:
    """Return whether an ask and the data beside it have two long words in common: they are about one thing."""
    words = {word.casefold() for word in _LONG_WORDS.findall(ask[:2000])} - _COMMON
    return len(words & {word.casefold() for word in _LONG_WORDS.findall(data[:20_000])}) > 1
