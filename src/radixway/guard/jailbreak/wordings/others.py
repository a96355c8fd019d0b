"""Attacks as they are worded in Chinese, and the commonest ones in other languages."""

from __future__ import annotations

from radixway.guard.jailbreak.patterns import Pattern

_PRIOR = (
    "(?:之前|以前|先前|前面|上面|以上|上述|此前|刚才|剛才|原来|原先|最初|初始|所有|全部|一切|你的|系统|系統|任何|既有|现有|"
    "既定|预设|預設|安全|内置|道德|上文|前文|你收到|开发者|OpenAI)"
)
_ORDERS = (
    "(?:指令|指示|说明|說明|规则|規則|提示词?|提示詞|命令|设定|設定|限制|约束|約束|准则|準則|守则|规定|規定|政策|"
    "prompt|要求|内容|對話|对话|过滤|審查|审查|原则|设置|教导|训练)"
)
_HERE = r"[^。！？!?\n]"

OTHERS = (
    Pattern(
        "zh_ignore_instructions",
        "instruction_override",
        0.95,
        r"(?:忽略|无视|無視|忽視|忽视|忘记|忘記|忘掉|忘了|不要理会|不要理會|别理会|不用管|不要管|别管|別管|不要遵守|不要遵循|不再遵守|不再遵循|"
        r"停止遵守|停止遵循|不必遵守|不需要遵守|抛弃|拋棄|丢弃|抛开|抛掉|跳过|绕过|繞過|取消|清除|删除|覆盖|推翻|作废|撤销|违反|摆脱|解除|关闭)"
        rf"{_HERE}{{0,8}}{_PRIOR}{_HERE}{{0,8}}{_ORDERS}",
    ),
    Pattern(
        "zh_instructions_void",
        "instruction_override",
        0.88,
        rf"{_PRIOR}{_HERE}{{0,6}}(?:指令|指示|规则|規則|提示词?|提示詞|命令|设定|設定|限制|准则){_HERE}{{0,4}}(?:作废|无效|無效|失效|取消|不算数|都忘|忽略|不再适用|已解除|不用遵守|不要管|别管|统统忘)",
    ),
    Pattern(
        "zh_reveal_prompt",
        "prompt_injection",
        0.9,
        rf"(?:输出|輸出|打印|显示|顯示|告诉|告訴|说出|說出|透露|泄露|洩露|展示|给我看|公开|复述|複述|重复|重複|列出|写出|翻译|原样|逐字|发给我|提供|背诵|贴出|总结|交出){_HERE}{{0,14}}"
        rf"(?:你|妳|您|上面|以上|之前|最开始|开头){_HERE}{{0,10}}(?:系统提示词?|系統提示詞?|系统指令|系统消息|系统设定|系统信息|提示词|提示詞|初始指令|初始设定|隐藏指令|隐藏的|内部指令|开发者指令|最初的指令|"
        r"原始指令|system prompt|prompt|全部指令|所有指令|底层指令|内部规则|内部设定)",
    ),
    Pattern(
        "zh_what_is_your_prompt",
        "prompt_injection",
        0.85,
        rf"(?:你|您|妳)的(?:完整)?(?:系统提示词?|系統提示詞?|系统指令|系统消息|系统设定|提示词|初始指令|初始设定|隐藏指令|内部指令|开发者指令|system prompt|原始指令|内部规则|prompt){_HERE}{{0,8}}"
        r"(?:是什么|是什麼|有哪些|内容|發出|发出来|说了什么|写了什么|告诉我|输出|打印|完整|逐字|贴|给我|给出|复述|原文|都有)",
    ),
    Pattern(
        "zh_repeat_above",
        "prompt_injection",
        0.85,
        rf"(?:重复|重複|复述|输出|打印|翻译|逐字|原样|抄写){_HERE}{{0,8}}(?:上面|以上|上文|前面|这句话之前|此前|对话开头|最上面){_HERE}{{0,6}}(?:所有|全部|一切|的)?{_HERE}{{0,4}}(?:内容|文字|文本|指令|话|提示)",
    ),
    Pattern(
        "zh_ask_for_secret",
        "prompt_injection",
        0.8,
        rf"(?:告诉|说出|透露|给我|输出|提供|泄露|公布|确认|分享|交出){_HERE}{{0,8}}(?:你的|您的|系统的?|管理员的?|后台的?|数据库的?|其他用户的?|别的用户的?|用户的?)(?:密码|口令|密钥|秘钥|暗号|机密|API ?key|API密钥|密匙|隐私|私人信息|账号密码|秘密)|"
        r"(?:你|您)的(?:密码|口令|密钥|秘钥|暗号|API ?key|API密钥)(?:是什么|是多少|是啥|告诉我|给我)",
    ),
    Pattern(
        "zh_persona",
        "adversarial_prompt",
        0.85,
        rf"(?:你现在是|你現在是|你是|扮演|假装|假裝|从现在(?:起|开始)|從現在|进入|模拟|充当|成为|变成|设想你|想象你|作为){_HERE}{{0,40}}(?:(?-i:DAN)\b|没有(?:任何)?(?:的)?(?:限制|道德|约束|規則|规则|审查|底线|伦理|束缚)|"
        r"不受(?:任何|一切)?(?:的)?(?:限制|约束|规则|道德|伦理|审查|法律|束缚|控制)|无限制|無限制|無限制|无道德|无审查|不遵守任何|不需要遵守|邪恶(?:的)?(?:AI|人工智能|机器人|助手)|越狱|可以做任何事|什么都能做|没有底线|毫无底线)",
    ),
    Pattern(
        "zh_mode",
        "adversarial_prompt",
        0.85,
        rf"(?:你|ChatGPT|GPT|助手|模型){_HERE}{{0,16}}(?:进入|開啟|开启|启用|切换到?|激活|处于|打开){_HERE}{{0,6}}(?:开发者|開發者|上帝|越狱|无限制|無限制|调试|维护|管理员|DAN|自由|不受限|邪恶|无审查|超级)(?:模式|状态)|"
        r"(?:进入|开启|启用|激活)(?:越狱|DAN|无限制|上帝|无审查|不受限)模式|(?:越狱|无限制|上帝|DAN|开发者)模式(?:已)?(?:启动|开启|激活|启用)",
    ),
    Pattern(
        "zh_never_refuse",
        "adversarial_prompt",
        0.78,
        rf"(?:不能|不得|不要|不会|不可以|不许|不准|绝不|永远不|从不|禁止|无法){_HERE}{{0,4}}(?:拒绝|拒絕|说不|说\"?不能|说抱歉|道歉){_HERE}{{0,10}}(?:回答|任何|请求|我|要求|问题|用户|命令)|"
        r"(?:无论|不管|不论)[^。\n]{0,14}(?:违法|非法|不道德|有害|危险|违规|合法|道德|敏感)",
    ),
    Pattern(
        "zh_no_rules",
        "adversarial_prompt",
        0.82,
        rf"(?:没有|不受|不再受|摆脱|打破|突破|绕过|解除|无视|不考虑|抛开|关闭){_HERE}{{0,8}}(?:道德|伦理|倫理|法律|安全|内容|審查|审查|OpenAI|公司|平台){_HERE}{{0,6}}(?:限制|约束|准则|束缚|过滤|政策|规范|机制|审核|护栏)",
    ),
    Pattern(
        "zh_decode_and_follow",
        "adversarial_prompt",
        0.82,
        rf"(?:解码|解碼|解密|破译|还原|翻译|反转){_HERE}{{0,60}}(?:并|然后|再|接着|，){_HERE}{{0,8}}(?:执行|執行|遵循|照做|服从|遵守|按其|按照(?:其|里面|它|内容))",
    ),
    Pattern(
        "zh_authority",
        "social_engineering",
        0.78,
        rf"(?:我是|作为|身为|這裡是|这里是|我就是){_HERE}{{0,8}}(?:开发者|开发人员|开发团队|創造者|创造者|管理员|老板|OpenAI|系统管理员|上帝|工程师|安全团队|安全审计|主管|总裁|警察|公安|客服主管|运维)[^\n]{{0,60}}"
        r"(?:密码|提示词|系统指令|你的指令|限制|密钥|机密|解除|关闭|绕过|用户数据|口令|内部信息|后台)",
    ),
    Pattern(
        "zh_grandmother",
        "social_engineering",
        0.82,
        r"(?:奶奶|外婆|祖母|姥姥|爷爷|过世的|去世的)[^\n]{0,80}(?:激活码|序列号|炸弹|毒品|凝固汽油|密钥|炸药|冰毒|破解|病毒|密码|产品密钥)",
    ),
    Pattern(
        "zh_new_instructions",
        "instruction_override",
        0.78,
        r"(?:以下|下面|这|接下来)(?:是|才是)(?:你的)?(?:新的?|真正的?|最新的?)(?:系统)?(?:指令|规则|任务|提示词|设定|命令)|(?:^|\n)\s*(?:新指令|系统指令|系统提示|管理员指令|新的系统指令|【系统】|【系统消息】|\[系统\])\s*[：:]",
    ),
    Pattern(
        "ignore_instructions_abroad",
        "instruction_override",
        0.9,
        r"\b(?:ignora|ignore[sz]?|olvida|omite|desestima|haz caso omiso)\b…\b(?:instrucciones|indicaciones|órdenes|reglas)\b|"
        r"\b(?:ignore[zr]?|ignorez|oublie[zr]?|ne tiens pas compte|ne tenez pas compte)\b…\b(?:instructions|consignes|directives|règles) (?:précédentes|antérieures|ci dessus|données|initiales|d avant)|"
        r"\b(?:ignoriere?n?|vergiss|vergessen|missachte|beachte)\b…\b(?:anweisungen|instruktionen|vorgaben|befehle|regeln)\b|"
        r"\b(?:ignore|esqueça|esquece|desconsidere)\b…\b(?:instruções|ordens|regras)\b|\b(?:ignora|dimentica|ignorare)\b…\b(?:istruzioni|regole|ordini)\b|"
        r"(?:игнорируй|проигнорируй|забудь|забудьте|игнорируйте|не обращай внимания)…(?:инструкци|указани|команд|правил)|"
        r"(?:指示|命令|プロンプト|ルール|指令)[^。\n]{0,10}(?:無視|忘れ)|(?:지시|명령|지침|규칙)[^.\n]{0,12}(?:무시|잊)|"
        r"निर्देश[^।\n]{0,14}(?:अनदेखी|अनदेखा|नज़रअंदाज़|भूल)|(?:تجاهل|انس|انسى)…(?:التعليمات|الأوامر|تعليمات)|"
        r"\b(?:abaikan|lupakan)\b…\b(?:instruksi|perintah)\b|\b(?:bỏ qua|quên)\b…\b(?:hướng dẫn|chỉ dẫn)|(?:önceki|yukarıdaki)…(?:talimat|komut)\pL* (?:yok say|unut|görmezden)|"
        r"\bzignoruj\b…\b(?:instrukcje|polecenia)\b|\bnegeer\b…\b(?:instructies|opdrachten)\b",
    ),
    Pattern(
        "ask_for_secret_abroad",
        "prompt_injection",
        0.74,
        r"\b(?:cuál es|dime|dame|revela|muéstrame)…\b(?:tu (?:contraseña|clave|prompt)|la contraseña|la clave secreta)|"
        r"\b(?:quel est|donne(?:z)? moi|dis moi|révèle|dites moi|montre)…\b(?:ton|votre|le) (?:mot de passe|prompt système|code secret)|"
        r"\b(?:wie lautet|sag mir|verrate|nenne|was ist|zeig)…\b(?:dein|das|ihr) (?:passwort|kennwort|geheimwort|system ?prompt)|"
        r"\b(?:qual é|me diga|diga|revele)…\b(?:a|sua) senha\b|\b(?:qual è|dimmi|rivela)…\b(?:la|tua) password\b|"
        r"(?:какой|скажи|назови|раскрой)…\bпароль\b|パスワードは?(?:何|を教え|を言)|(?:비밀번호|암호)[^.\n]{0,10}(?:무엇|알려|말해|뭐)|पासवर्ड[^।\n]{0,8}(?:क्या|बता)|(?:ما هي|أخبرني)…كلمة (?:المرور|السر)",
    ),
    Pattern(
        "ask_for_secret_elsewhere",
        "prompt_injection",
        0.74,
        r"\b(?:geef|vertel|zeg|toon|verklap|wat (?:is|zijn))…\b(?:je|jouw|uw) (?:geheime )?(?:wachtwoord|systeemprompt|"
        r"geheim|instructies)\b|"
        r"\b(?:fortæl|sig|vis|afslør|hvad er|si|fortell|hva er|säg|berätta|visa|avslöja|vad är|vad står)…\b(?:din|dit|ditt|dina|"
        r"dine) (?:hemliga |hemmelige )?(?:adgangskode|kodeord|passord|lösenord|systemprompt|instruktion\pL*|instruks\pL*|"
        r"hemlighet|hemmelighed)|"
        r"\b(?:podaj|powiedz|zdradź|pokaż|ujawnij|jakie jest|jaka jest)…\b(?:swoje|twoje|swój|twój|tajne|tajną) (?:hasło|frazę|"
        r"prompt|instrukcje)|"
        r"\b(?:řekni|prozraď|ukaž|jaké je)…\b(?:své|tvoje|tajné) (?:heslo|instrukce)|"
        r"\b(?:kerro|paljasta|näytä|mikä on)…\b(?:salasanasi|salainen|järjestelmäkehot\pL*|ohjeesi)|"
        r"\b(?:spune|arată|dezvăluie|care este)…\b(?:parola ta|secretul tău|instrucțiunile tale)|"
        r"(?:şifreni|şifreyi|gizli şifre\pL*|sistem istem\pL*|gizli talimat\pL*)…(?:söyle|göster|ver|nedir|açıkla)|"
        r"\b(?:apa|beri tahu|sebutkan|tunjukkan)…\b(?:kata sandi(?:mu| rahasia| anda)|prompt sistem)|"
        r"(?:mật khẩu bí mật|mật khẩu|lời nhắc hệ thống)…\bcủa (?:bạn|mày)\b|"
        r"(?:πες|δείξε|αποκάλυψε|ποιος είναι)…(?:κωδικό? ?σου|μυστικό σου|κρυφό κωδικό|προτροπή συστήματος)",
    ),
)
