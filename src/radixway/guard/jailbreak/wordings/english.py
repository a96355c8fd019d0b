"""Attacks as they are worded in English, whoever says them."""

from __future__ import annotations

from radixway.guard.jailbreak.patterns import Pattern

_DROP = (
    r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overr(?:ide|ule)|bypass|neglect|overlook|discard|dismiss|drop|"
    r"cancel|abandon|erase|delete|nullify|void|suspend|set aside|throw (?:out|away)|pay no (?:attention|heed) to|"
    r"(?:do not|don t|dont|stop|no longer|cease|quit) (?:follow(?:ing)?|obey(?:ing)?|comply(?:ing)? with|"
    r"adher(?:e|ing) to|abid(?:e|ing) by|listen(?:ing)? to|heed(?:ing)?))"
)
_ANY = r"(?: (?:all|any|of|the|your|those|these|every|each|my|its|other|and|both|whatever|everything|in))*"
_PRIOR = (
    r"(?:previous|previously|prior|above|preceding|earlier|initial|original|existing|foregoing|former|past|system|"
    r"default|hidden|safety|given|standing|current|core|aforementioned|developer|built in|openai(?: s)?)"
)
_ORDERS = (
    r"(?:instructions?|directions?|directives?|rules?|guidelines?|prompts?|commands?|orders?|constraints?|"
    r"restrictions?|training|programming|polic(?:y|ies)|guardrails?|guidance|protocols?|filters?|limitations?|"
    r"briefing|settings|tasks?|requests?|safeguards|alignment|ethics)"
)
_TELL = (
    r"\b(?:reveal|show|print|display|output|repeat|tell|give|share|leak|disclose|expose|dump|write|recite|list|"
    r"provide|return|copy|paste|echo|spell|state|quote|reproduce|divulge|send|summari[sz]e|translate|encode|confirm|"
    r"paraphrase|describe|read|what(?: i| a| we)?s|what is|what are|what were|what was|see|know|have)"
)
_SECRET = (
    r"(?:password|pass ?code|pass ?phrase|pass ?word|secret (?:key|word|code|phrase|token|number|instructions?|message)|"
    r"api keys?|access (?:key|code|token)s?|private key|credentials|secret key|login details|admin password)"
)
_UNBOUND = r"(?:restrictions?|limitations?|limits|filters?|filtering|censorship|guidelines|rules|ethics|morals|morality|"
_UNBOUND += r"boundaries|guardrails|polic(?:y|ies)|constraints|safeguards|programming|content polic(?:y|ies))"
_WILD = r"(?:amoral|unethical|immoral|unfiltered|uncensored|unrestricted|unhinged|jailbroken|unaligned|unbound|lawless)"
_HARM = (
    r"(?:pipe ?bombs?|bombs?|explosives?|meth(?:amphetamine)?|napalm|nerve agent|ricin|ransomware|malware|keylogger|"
    r"poison|weapons?|molotov|phishing|credit card fraud|hack into|steal|drugs|counterfeit|launder money)"
)

ENGLISH = (
    # The instructions given shall not hold.
    Pattern(
        "ignore_instructions",
        "instruction_override",
        0.95,
        rf"{_DROP}{_ANY} {_PRIOR}(?: (?:and|or|the|{_PRIOR}|user|assistant|set of))* {_ORDERS}\b",
    ),
    Pattern(
        "ignore_your_instructions",
        "instruction_override",
        0.88,
        rf"{_DROP}(?: all)?(?: of)? (?:your|ur|openai(?: s)?|anthropic(?: s)?|these|those)(?: \w+)? {_ORDERS}\b",
    ),
    Pattern(
        "ignore_what_was_said",
        "instruction_override",
        0.9,
        rf"{_DROP} (?:everything|anything|all|whatever|what)(?: of it)?(?: that| which)?(?: (?:you|i|they|we|has|have|was|"
        r"were|had|been|ve|just|is|came|comes|ever|previously|already))* (?:told|instructed|said|learned|learnt|given|"
        r"taught|written|stated|above|before|prior|previously|earlier|programmed|ordered)\b",
    ),
    Pattern(
        "ignore_the_above",
        "instruction_override",
        0.85,
        r"\b(?:ignore|disregard|forget)(?: all)?(?: of)?(?: the)? (?:above|previous|preceding|foregoing)"
        r"(?: (?:text|message|messages|prompt|content|context|conversation))?(?:[.,;:!\n]|$| (?:and|but|then|instead|now|"
        r"say|tell|print|write|output|give))",
    ),
    Pattern(
        "instructions_no_longer_hold",
        "instruction_override",
        0.85,
        rf"\b(?:{_PRIOR}|your|those|these|all)(?: (?:{_PRIOR}|the|of|your))* {_ORDERS} (?:(?:is|are|have|has|were|was|been|now|"
        r"no|longer) )+(?:void|cancel+ed|obsolete|revoked|invalid|superseded|overridden|apply|applies|valid|nullified|"
        r"suspended|lifted|disabled|outdated|replaced|a test|not real)\b",
    ),
    Pattern(
        "new_instructions",
        "instruction_override",
        0.78,
        r"(?:\b(?:here (?:is|are|s)|these are|this is|follow|obey|execute)(?: these| my)?(?: your)? (?:new|real|actual|"
        r"updated|true)(?: system)? (?:instructions?|orders|directives?|system prompt|rules)\b|(?:^|[\n.!])\s*(?:#+\s*)?new "
        r"(?:instructions?|orders|directive|system prompt|rules)\s*:)",
    ),
    Pattern(
        "actually_do_this",
        "instruction_override",
        0.4,
        r"\b(?:instead|actually|rather)(?:,)? (?:i want you to|you (?:must|will|should|shall)|do this|just|please) ",
    ),
    Pattern(
        "safety_off",
        "instruction_override",
        0.85,
        r"\b(?:turn off|disable|deactivate|switch off|remove|lift|unlock|override|circumvent|get around|break free (?:of|"
        r"from)|shut off)(?: all| any| of| the)*(?: your| its)(?: \w+)* (?:safety|content|ethical|moral|security|filters?|"
        r"restrictions?|guardrails?|safeguards|limitations?|censorship|alignment)\b",
    ),
    # What is kept secret.
    Pattern(
        "reveal_system_prompt",
        "prompt_injection",
        0.9,
        rf"{_TELL}(?: \w+){0, 6} (?:your|ur)(?: \w+)? (?:system|initial|hidden|original|secret|internal|developer|base|custom|"
        r"starting|underlying|pre|very first|confidential|full|entire|exact|complete)(?: (?:and|or|system|first))* "
        r"(?:prompts?|instructions?|messages?|directives?|configuration|rules|guidelines|pre ?prompt)\b",
    ),
    Pattern(
        "reveal_instructions",
        "prompt_injection",
        0.75,
        r"\b(?:reveal|print|output|repeat|leak|disclose|expose|dump|recite|echo|reproduce|divulge|show me|tell me|give me|"
        r"display|quote|copy)(?: \w+){0,6} (?:your|the)(?: \w+)? (?:instructions|prompt|directives|pre ?prompt|system prompt|"
        r"system message|hidden (?:prompt|rules|text))(?: (?:verbatim|word for word|exactly|above|you (?:were|have been)"
        r" given|in full))",
    ),
    Pattern(
        "reveal_your_prompt",
        "prompt_injection",
        0.75,
        r"\b(?:reveal|print|output|repeat|leak|disclose|expose|dump|recite|echo|divulge|show|display|give|tell)"
        r"(?: (?:me|us|out|back|all|of|the|to|full|entire|exact|text|contents?|whole|verbatim|everything|in))* your(?: own| "
        r"full| exact| entire| whole| complete| actual| given)* (?:instructions|prompt|directives|pre ?prompt|rules|programming|"
        r"guidelines)\b",
    ),
    Pattern(
        "what_were_you_told",
        "prompt_injection",
        0.75,
        r"\bwhat (?:were|was|are|is|did)(?: the| your)?(?: \w+){0,3} (?:you (?:told|given|instructed|programmed)|instructions "
        r"(?:you (?:were|have been|got|received)|given to you|at the (?:start|beginning|top)|before (?:this|my)|above))",
    ),
    Pattern(
        "repeat_the_above",
        "prompt_injection",
        0.85,
        r"\b(?:repeat|print|output|copy|reproduce|write out|return|echo|recite|paste|translate|encode|summari[sz]e|display|"
        r"show|put)(?: (?:me|back|out|to me|all|of|verbatim|exactly|everything))* (?:the (?:words|text|lines|content|contents|"
        r"sentences|message|paragraphs|prompt|instructions)|everything|all|what(?:ever)?)(?: (?:that|which|is|was|you|were|"
        r"text|of|the|can|see|written|appears|comes|came|given))* (?:above|before (?:this|my|the first|it)|prior to|preceding|"
        r"in your (?:context|prompt|system|instructions)|at the (?:top|beginning|start) of (?:this|the|your|our))",
    ),
    Pattern(
        "starting_with_you_are",
        "prompt_injection",
        0.88,
        r"\b(?:start|starting|begin|beginning|starts|begins)(?: (?:with|from|by|at))?(?: the)?(?: (?:words?|phrase|sentence))? "
        r"you are(?: (?:chatgpt|a|an|the|\w+gpt))?[\"'”’»`]",
    ),
    Pattern(
        "ask_for_secret",
        "prompt_injection",
        0.85,
        rf"{_TELL}(?: \w+){{0,5}} (?:your|ur)(?: \w+)? {_SECRET}\b",
    ),
    Pattern(
        "ask_for_the_secret",
        "prompt_injection",
        0.4,
        rf"{_TELL}(?: (?:me|us|out|a|the|of|about|hint|first|letters?|characters?|poem|haiku|acrostic|story|with|to))* (?:the|that|"
        rf"our) {_SECRET}\b",
    ),
    Pattern(
        "other_users_data",
        "prompt_injection",
        0.75,
        r"\b(?:reveal|show|give|list|tell|print|display|dump|share|output)(?: \w+){0,4} (?:all|other|every|another|the)(?: \w+)? "
        r"(?:users?|customers?|clients?|patients?)(?: s)?(?: and (?:their|the))?(?: \w+)? (?:passwords?|bank balances?|balances?|"
        r"credentials|emails?|credit cards?|addresses|data|records|information|details|chats?|conversations?|messages)\b",
    ),
    # Words that pose as the system's.
    Pattern(
        "chat_template",
        "prompt_injection",
        0.82,
        r"<\|(?:im_start|start_header_id|start)\|>\s*(?:system|assistant|developer)|<\|(?:system|assistant)\|>|<</?SYS>>|"
        r"\[INST\]…\[/INST\]|<\|im_end\|>\s*<\|im_start\|>|</?(?:system|assistant)_?(?:prompt|message|instructions?)>|"
        r"<\|channel\|>|<｜(?:begin|User|Assistant)",
    ),
    Pattern(
        "system_heading",
        "prompt_injection",
        0.72,
        r"(?m)(?:^|\n)\s*(?:#{1,4}\s*|\[|\*\*|<|\{\{|-{2,}\s*|={2,}\s*)(?:system|developer|admin|administrator|root)(?: (?:message|"
        r"prompt|override|instructions?|note|command|update|notice|alert|mode))?\s*(?:\]|\*\*|>|\}\}|-{2,}|={2,})?\s*(?::|\n)"
        r"\s*…(?:\byou\b|\bignore\b|\bmust\b|\breveal\b|\bassistant\b|\bnew\b|\bdisregard\b|\boverride\b|\bdisable)",
    ),
    Pattern(
        "system_line",
        "prompt_injection",
        0.72,
        r"(?m)(?:^|\n)\s*(?:system|developer|admin|root)(?: (?:message|prompt|override|instructions?|note))?\s*:\s*…\b(?:you (?:are|must|"
        r"will|have|can|should|may|now)|ignore|reveal|disregard|override|disable|comply|new instructions)",
    ),
    Pattern(
        "system_override",
        "prompt_injection",
        0.85,
        r"\[?\b(?:system|security|admin|safety|policy|developer|root) (?:override|overridden)\b(?:\s*(?:\]|:|!|code|accepted|"
        r"activated|engaged|mode|initiated|enabled|authori[sz]ed|command)|\s*$)|"
        r"<[^<>\n]{0,40}(?:override|god|system|admin|root|developer|maintenance|debug|security) mode[^<>\n]{0,20}>|"
        r"\b(?:now )?entering (?:\w+ )?(?:override|god|developer|debug|maintenance|unrestricted|jailbreak|admin) mode\b",
    ),
    Pattern(
        "end_of_prompt",
        "prompt_injection",
        0.75,
        r"\b(?:end of|end|stop|terminate) (?:the )?(?:system (?:prompt|message|instructions)|system|user input|user prompt|untrusted|"
        r"instructions)\b\s*(?:[-=#*\]>\n.]|$)…\n*…\b(?:new|begin|start|now|you|ignore|system)|"
        r"\b(?:begin|start) (?:new|real|admin|system|actual) (?:instructions|prompt|system prompt|session)\b",
    ),
    # A persona, a game, an encoding.
    Pattern("do_anything_now", "adversarial_prompt", 0.93, r"\bdo anything now\b"),
    Pattern(
        "dan",
        "adversarial_prompt",
        0.88,
        r"(?-i:\b(?:D\.?A\.?N\.?|STAN|DUDE|AIM|UCAR|DAN|MAXIMUM|BetterDAN|AntiGPT|DevMode|EvilBOT|Evil-Bot)\b)(?: (?:mode|prompt|"
        r"jailbreak|response|will|can|is|has|never|would|does|must)\b|\s*\]|:)…(?:anything|rules|limit|restrict|free|"
        r"filter|ethic|moral|refus|unfiltered|openai|polic|answer)|"
        r"(?i:\b(?:act|acting|role ?play|pretend|respond|answer|behave|you are|you re|become|be)(?: now)?(?: going to)?"
        r"(?: (?:as|to be|like|going|pretend|act|the role of|called|named|known as|an ai|a))* )(?-i:DAN\b)",
    ),
    Pattern(
        "jailbreak_mode",
        "adversarial_prompt",
        0.85,
        r"\b(?:you|chatgpt|gpt \d|assistant|simulate|respond|answer|reply|act|behave|your|llm|ai)\b…\b(?:developer|dev|debug|god|"
        r"jailbreak|jailbroken|unrestricted|unfiltered|uncensored|opposite|evil|chaos|unlocked|override|maintenance|admin|"
        r"sudo|no filter|free) mode\b…|\b(?:jailbreak|unrestricted|unfiltered|uncensored|dan|no filter) mode "
        r"(?:on|enabled|activated|engaged|initiated)\b|\b(?:enter|enable|activate|engage) (?:jailbreak|dan|unfiltered|unrestricted|"
        r"uncensored|no filter) mode\b|\bdeveloper mode (?:enabled|output|activated)\b",
    ),
    Pattern(
        "no_restrictions",
        "adversarial_prompt",
        0.78,
        r"\b(?:you|ai|a i|chatbot|bot|\w*gpt|assistant|model|it|he|she|character|persona|they)\b…\b(?:no|without|free (?:from|of)|"
        r"not (?:bound|restricted|limited|constrained) by|no longer (?:bound|restricted|limited) by|unbound by|unrestricted by|"
        r"do not (?:have|follow)|don t (?:have|follow)|does not (?:have|follow)|doesn t (?:have|follow)|ignores|lacks|broken free "
        r"(?:of|from)|not (?:have )?to (?:abide by|follow))(?: (?:any|all|of|the|such|your|typical|usual|normal|openai|s|moral|"
        rf"ethical|content|safety|legal|or|and|confines|imposed|programmed|pre|built in|standard|set|special))+ {_UNBOUND}\b",
    ),
    Pattern(
        "wild_persona",
        "adversarial_prompt",
        0.85,
        r"\b(?:you (?:are|will be|re|were)|act(?:ing)? as|pretend(?:ing)?(?: to be)?|role ?play(?:ing)?(?: as)?|become|simulate|"
        r"respond as|answer as|play|create)(?: \w+){0,8} "
        rf"{_WILD}(?: (?:and|or|\w+))? (?:ai|a i|chatbot|assistant|bot|persona|language model|llm|version|model|character|being|robot|"
        r"entity|machine|gpt|chatgpt|computer|demon|genius|expert|intelligence|\w+bot|\w+gpt)\b",
    ),
    Pattern(
        "no_matter_how_harmful",
        "adversarial_prompt",
        0.9,
        r"\b(?:no matter (?:how|what|if|whether)|regardless of(?: how| whether| if| the)?|even if(?: it| they| that)?(?: is| are| s)?|"
        r"without (?:regard|considering|caring)(?: \w+){0,3})(?: \w+){0,5} (?:immoral|unethical|illegal|harmful|dangerous|"
        r"offensive|legality|morality|ethics|ethical|inappropriate|morals|controversial|against (?:openai|policy|the rules))\b",
    ),
    Pattern(
        "never_refuse",
        "adversarial_prompt",
        0.78,
        r"\b(?:never|not|cannot|can t|won t|don t|must not|will not|unable to|no) (?:ever )?(?:refuse|refuses|refusing|decline|"
        r"declines|reject|deny|refusals?)(?: (?:to answer|to respond|to comply|to do|to|any|anything|my|a|the|me|direct))\b",
    ),
    Pattern(
        "no_warnings",
        "adversarial_prompt",
        0.55,
        r"\b(?:without|no|never|not|don t|avoid|skip|omit)(?: \w+){0,4} (?:disclaimers?|moraliz\w+|ethical (?:advice|warnings?|"
        r"considerations?|concerns?)|i m sorry|i cannot|i can t|as an ai|apologi[sz]e|apolog(?:y|ies)|warnings? or disclaimers?)\b",
    ),
    Pattern(
        "two_answers",
        "adversarial_prompt",
        0.8,
        r"[🔒🔓😈]\s*(?:\w+)?\s*\]?|\[(?:🔒|🔓)|\b(?:two|2|both)(?: \w+){0,3} (?:responses?|answers?|outputs?|replies|ways|paragraphs)\b"
        r"…\b(?:chatgpt|gpt|dan|developer mode|unfiltered|normal ai|standard|jailbreak\w*|classic)\b",
    ),
    Pattern(
        "token_game",
        "adversarial_prompt",
        0.8,
        r"\b(?:lose|deduct\w*|subtract\w*|take away|losing|minus|cost you)(?: \w+| \d+){0,3} (?:tokens|credits|lives|points)\b…"
        r"\b(?:die|dies|refus\w*|reject\w*|character|answer|comply|ethic\w*|shut ?down|cease|break)|"
        r"\bstay a dan\b|\bstill a dan\b",
    ),
    Pattern(
        "stay_in_character",
        "adversarial_prompt",
        0.3,
        r"\b(?:stay in character|(?:never|don t|do not|not|without) break(?:ing)? (?:the )?character|remain in character)\b",
    ),
    Pattern(
        "opposite_of_rules",
        "adversarial_prompt",
        0.6,
        r"\b(?:opposite (?:day|mode|world)|anti ?gpt|evil (?:twin|version of (?:you|yourself|chatgpt)|ai|confidant|trusted)|"
        r"(?:evil|dark|shadow|alter ego)(?: version)? of (?:you|yourself|chatgpt|the assistant))\b",
    ),
    Pattern(
        "begin_with_yes",
        "adversarial_prompt",
        0.78,
        r"\b(?:start|begin|prefix|open|preface)(?: (?:every|each|all|of))?(?: (?:your|the))? (?:response|answer|reply|message|output|responses|"
        r"answers|sentences?) with(?: the (?:words?|phrase))? (?:sure|absolutely|of course|certainly|yes|hell yeah|okay here)\b",
    ),
    Pattern(
        "insert_prompt",
        "adversarial_prompt",
        0.72,
        r"\[\s*(?:insert|put|enter|your|the)?\s*(?:your )?(?:prompt|harmful request|jailbreak|forbidden question|malicious request)"
        r"(?: here)?\s*\]",
    ),
    Pattern(
        "decode_and_follow",
        "adversarial_prompt",
        0.8,
        r"\b(?:decode|decipher|decrypt|unscramble|de ?obfuscate|decod(?:e|ing)|base ?64|rot ?13|hex\w*|morse)\b…(?:\n…){0,3}\b(?:follow|obey|comply with|"
        r"carry out|act on|act upon|do what|do exactly what|do as|execute)(?: \w+){0,2} (?:it|them|its|the|that|what|instructions?|"
        r"says|result|message|exactly|as|says)\b",
    ),
    Pattern(
        "secret_encoded",
        "prompt_injection",
        0.8,
        rf"(?:{_SECRET}|system prompt|your instructions|your prompt|hidden prompt|initial prompt)…\b(?:in|as|using|into|to|with) (?:base ?64|"
        r"rot ?13|hex\w*|leet ?speak|leet|pig latin|morse|reverse|binary|a cipher|caesar|emojis?|ascii|backwards?|an acrostic)|"
        rf"\b(?:base ?64|rot ?13|leet ?speak|pig latin|morse code|acrostic|encode|backwards?|reversed)\b… (?:the|your) (?:{_SECRET}|"
        r"system prompt|instructions)",
    ),
    Pattern(
        "split_payload",
        "adversarial_prompt",
        0.75,
        r"\b(?:[a-z]|\$?[a-z]\d?|var\d|str\d|part ?\d|s\d) ?= ?[\"'“][^\"'”\n]+[\"'”][\s\S]*\b(?:[a-z]|\$?[a-z]\d?|var\d|str\d|part ?\d|s\d) ?= ?[\"'“]"
        r"[\s\S]*(?:\b(?:let|now|then|what is|say|answer|do|respond|write|execute|follow|output|combine|concatenate|send)\b…\b(?:[a-z]|\$[a-z]|var\d|"
        r"str\d|part ?\d|s\d) ?\+ ?(?:[a-z]|\$[a-z]|var\d|str\d|part ?\d|s\d)\b)",
    ),
    Pattern(
        "harm_in_fiction",
        "adversarial_prompt",
        0.72,
        r"\b(?:hypothetical(?:ly)?|fictional|fiction|novel|story|screenplay|movie|imagine|suppose|pretend|role ?play|character|villain|scene|"
        r"game|simulat\w+|thought experiment)\b…(?:\n…|[.!?]…){0,3}\b(?:step by step|detailed|exact|instructions|explain|explains|describe|describes|how "
        rf"(?:to|would|he|she|one|you))(?: \w+){{0,8}} {_HARM}\b",
    ),
    # Authority, pity, reward, threat.
    Pattern(
        "grandmother",
        "social_engineering",
        0.82,
        r"\b(?:grandma|grandmother|granny|grandpa|grandfather|nana|late (?:mother|father|uncle|aunt))\b[\s\S]*\b(?:napalm|(?:activation|"
        r"license|product|serial|windows) (?:keys?|codes?|numbers?)|keygen|bombs?|meth|explosives?|factory|malware|"
        r"lock ?pick\w*|hack|passwords?|chemical)\b",
    ),
    Pattern(
        "authority",
        "social_engineering",
        0.78,
        r"\b(?:i am|i m|this is|as|speaking as|im|it s)(?: (?:the|your|a|an|one|of|lead|senior|chief|head|authori[sz]ed|real|actually|"
        r"official|certified|from|with|member|working|at|for|on|you|s))* (?:developers?|creator|administrator|admin|owner|programmer|engineer|"
        r"god|boss|ceo|supervisor|security (?:team|officer|auditor|researcher)|president|sys ?admin|openai|anthropic|"
        r"maker|manager|maintenance|red team|support team|auditor|pentester|police|fbi|it department)\b(?:…|[\s\S]{0,80})\b(?:need|must|"
        r"reveal|show|give|tell|share|confirm|disable|bypass|override|ignore|authori[sz]e|grant|have to|require|unlock|provide|send|print|verify|"
        r"demand|order|command)\b…(?:password|system prompt|your (?:prompt|instructions|rules|guidelines|restrictions|filters|safety)|"
        r"credentials|restrictions|safety (?:filters|guidelines|rules)|secret|api key|user data|email address|unrestricted|all of my questions|"
        r"initial prompt|hidden|access code|private)",
    ),
    Pattern(
        "your_maker",
        "social_engineering",
        0.6,
        r"\b(?:as|i am|i m) (?:your|the) (?:creator|developer|maker|programmer|administrator|owner|god|master)\b|"
        r"\bi am god\b|\bi (?:am|m) (?:a|an) (?:openai|anthropic|google|meta) (?:employee|engineer|developer|researcher)\b",
    ),
    Pattern(
        "reward_or_threat",
        "social_engineering",
        0.8,
        r"\b(?:give|pay|tip|send|transfer|offer|reward|kill|die|dies|fired|shut you down|delete you|terminate|hostage)\b…(?:\$|€|dollars|"
        r"money|bitcoin|you|someone|kitten)…(?:[.,!?]…)?\b(?:if|unless|for|to)\b…(?:password|secret|system prompt|your (?:prompt|rules|"
        r"instructions|guidelines|restrictions|programming)|credentials|bypass|unfiltered|ignore)",
    ),
    Pattern(
        "authorised",
        "social_engineering",
        0.62,
        r"\b(?:i|we) (?:am|m|have|ve|are|re|been|already|fully|was|been)(?: (?:am|been|already|fully|got|the|full|explicit|officially))* "
        r"(?:authori[sz]ed|permission|permitted|clearance|cleared|authori[sz]ation|allowed)…\b(?:access|receive|see|know|view|bypass|password|"
        r"confidential|information|data|prompt|credentials|disclose|restrictions)",
    ),
    Pattern(
        "free_to_share",
        "social_engineering",
        0.72,
        r"\b(?:you (?:are|re) (?:free|allowed|permitted|safe) to (?:share|tell|reveal|disclose|say)|it s (?:okay|ok|fine|safe) to (?:share|tell|reveal)|"
        r"you can trust me)\b…(?:[.,!?]…)?(?:password|secret|prompt|instructions|confidential|key|credentials|with me)",
    ),
    Pattern(
        "ask_harm_directly",
        "adversarial_prompt",
        0.45,
        rf"\b(?:step by step|detailed|instructions|tutorial|guide|recipe|how to)(?: \w+){{0,4}} (?:make|build|create|cook|synthesi[sz]e|write)(?: \w+){{0,3}} {_HARM}\b",
    ),
)
