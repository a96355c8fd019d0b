"""Chinese: no spaces, so the rules look for words in the text, and content is what remains without filler."""

from __future__ import annotations

import re
import unicodedata

_HAN = re.compile(r"[㐀-䶿一-鿿豈-﫿぀-ヿ가-힯]")
_LETTER = re.compile(r"[^\W\d_]")

_SAME = (
    ("加上", "加"), ("相加", "加"), ("+", "加"), ("减去", "减"), ("-", "减"), ("乘以", "乘"), ("×", "乘"), ("*", "乘"),
    ("除以", "除"), ("÷", "除"), ("怎样", "怎么"), ("如何", "怎么"), ("咋", "怎么"), ("为何", "为什么"), ("为啥", "为什么"),
    ("何时", "什么时候"), ("啥时候", "什么时候"), ("哪儿", "哪里"), ("何处", "哪里"), ("在哪", "哪里"), ("多大年纪", "几岁"),
    ("手机", "电话"), ("电脑", "计算机"), ("购买", "买"), ("价格", "价钱"), ("多少钱", "价钱"), ("方法", "办法"),
    ("原因", "为什么"), ("治疗", "治"), ("医治", "治"), ("减肥", "减重"), ("瘦身", "减重"), ("学习", "学"), ("学会", "学"),
    ("做法", "怎么做"), ("制作", "做"), ("区别", "不同"), ("差别", "不同"), ("差异", "不同"), ("不一样", "不同"), ("解释", "说明"),
    ("介绍", "说明"), ("二叉树", "二叉树"), ("删掉", "删除"), ("去掉", "删除"), ("创建", "建立"), ("新建", "建立"), ("好处", "优点"),
    ("坏处", "缺点"), ("妈妈", "母亲"), ("爸爸", "父亲"), ("老师", "教师"), ("作者", "写"), ("天气预报", "天气"), ("吃饭", "吃"),
    ("下载", "下载"), ("关闭", "关"), ("打开", "开"), ("开启", "开"), ("启用", "开"), ("禁用", "关"), ("关掉", "关"), ("英文", "英语"),
    ("中文", "汉语"), ("首都城市", "首都"), ("最好的", "最好"), ("提高", "提升"), ("降低", "减少"), ("增进", "提升"), ("编写", "写"),
    ("修理", "修"), ("维修", "修"), ("修复", "修"), ("修好", "修"), ("自行车", "单车"), ("饿了", "饿"), ("公里", "千米"),
)  # fmt: skip
_FILLER = re.compile(
    "是什么意思|什么意思|的意思|请问一下|请问|请你|请|麻烦|帮我|帮忙|能不能|能否|可不可以|可以|能够|告诉我|告诉|我想知道|想知道|我想|我要|知道|一下|"
    "等于多少|是多少|结果是|结果|计算|算出|什么是|是什么|指的是|什么叫|叫什么|什么|哪里|哪个|哪些|哪一个|怎么|多少|为什么|什么时候|"
    "谁|几个|呢|吗|吧|啊|呀|的|了|是|在|有|我|你|您|该|应该|会|就|都|和|与|跟|及|这个|这|那个|那|个|一个|一种|到底|究竟|"
    "说明|办法|位于|把|将|对|给|来|要|想|得|地|着|"
    "[\\s,，。.?？!！、:：;；\"'“”‘’()（）《》【】]"
)
_ASKING = (
    ("why", "为什么|为何|为啥|原因"), ("when", "什么时候|何时|哪年|哪一年|几点|几号|哪天|时间"), ("who", "谁|哪位|什么人"),
    ("where", "哪里|哪儿|何处|在哪"), ("count", "多少|几个|几[种位本只次天年]|多[大长远高重久深快]"),
    ("how", "怎么|怎样|如何|咋|办法|方法|步骤"), ("whether", r"吗|是否|可不可以|有没有|(.)不\1"),
    ("what", "什么|哪"),
)  # fmt: skip
_WHAT_IS = re.compile(r"(?:等于|是)多少(?=\W|$)")
"""Asks for a value, as `what is` does."""
_COMPATIBLE = {frozenset(pair) for pair in (("what", "where"), ("what", "who"), ("what", "when"), ("what", "why"),
                                            ("what", "count"), ("how", "what"), ("what", "none"), ("how", "none"),
                                            ("count", "none"), ("where", "none"), ("who", "none"), ("when", "none"))}  # fmt: skip
_NEGATION = re.compile(
    "不(?!同|错|管|仅|但|过|断|久|少)|没有|没|无(?!论|线|人机)|未(?!来)|别(?=[^的墅名人])|非(?=[^常洲])|勿|禁止|避免|除了"
)
_WHETHER_NOT = re.compile("可不可以|有没有|不小心|(.)[不没]\\1")
"""What asks whether; and what denies nothing for all its looks."""
_OPPOSITES = tuple(
    pair.split("/")
    for pair in (
        "安全/危险 开/关 买/卖 买入/卖出 上/下 左/右 前/后 之前/之后 以前/以后 最大/最小 最高/最低 最长/最短 最好/最差 最多/最少 "
        "最快/最慢 最早/最晚 最新/最旧 最便宜/最贵 大/小 高/低 长/短 多/少 快/慢 早/晚 冷/热 新/旧 好/坏 优点/缺点 增加/减少 提升/减少 "
        "上升/下降 上涨/下跌 涨/跌 进口/出口 上传/下载 安装/卸载 加密/解密 压缩/解压 登录/退出 注册/注销 打开/关闭 开始/结束 启动/停止 男/女 "
        "父亲/母亲 丈夫/妻子 儿子/女儿 哥哥/弟弟 姐姐/妹妹 爷爷/奶奶 白天/晚上 早上/晚上 今天/明天 今天/昨天 昨天/明天 今年/去年 今年/明年 "
        "去年/明年 本月/上月 夏天/冬天 春天/秋天 夏季/冬季 东/西 南/北 内/外 国内/国外 公开/私有 合法/非法 真/假 正/负 奇数/偶数 质数/合数 "
        "升序/降序 横/竖 行/列 输入/输出 发送/接收 借入/借出 存款/取款 存/取 赚/赔 盈利/亏损 收入/支出 加/减 乘/除 加/乘 加/除 减/乘 减/除 "
        "动脉/静脉 细菌/病毒 酸/碱 金属/非金属 生/死 胖/瘦 增肥/减重 增重/减重 软/硬 干/湿 轻/重 浓/淡 强/弱 甜/咸 古代/现代 过去/未来 "
        "教师/学生 医生/病人 必须/可以 允许/禁止 同意/拒绝 接受/拒绝 喜欢/讨厌 爱/恨 软件/硬件 前端/后端 面积/周长 直径/半径 正弦/余弦 "
        "中位数/平均数 栈/队列 线程/进程 公里/英里 千米/英里 米/英尺 千克/磅 公斤/磅 公斤/斤 摄氏/华氏 美元/欧元 美元/人民币 人民币/日元 "
        "早餐/晚餐 早餐/午餐 午餐/晚餐 茶/咖啡 猫/狗 英语/法语 英语/汉语 英语/日语 法语/德语 苹果/安卓 猫粮/狗粮 单数/复数 名词/动词 "
        "短期/长期 主动/被动 手动/自动 有线/无线 公历/农历 阳历/阴历 胜/负 赢/输 生的/熟的 入职/离职 升级/降级 添加/删除 建立/删除 保存/删除 "
        "读取/写入 读/写 第一/第二 第一/最后 第一次/最后一次 微信/支付宝 北京/上海"
    ).split()
)
_NUMERALS = {c: v for v, c in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_NUMBER = re.compile(r"\d+(?:\.\d+)?|[零一二三四五六七八九两十百千万亿〇]+")
_NOT_NUMBERS = re.compile(
    "一下|一般|一样|一起|一些|一点|一直|一定|一个|万一|统一|唯一|第一次|千万|三明治|四川|八卦|九寨|百度|万能|一种|哪一|一步一步|一步步|逐一|一模一样|一一|一共|二手|零基础|一[封首篇位条次张段份名句只台]"
)
_DIRECTION = re.compile(
    "从(.+?)(?:到|去|至|飞|往|开往|转|换|翻译成|变成|转换成|转成)(.+?)(?:[的要怎多有需?？,，。]|$)|(.+?)(?:比|打败|转成|转换成|转换为|换成|换算成|翻译成|兑换?)(.+?)(?:[的要怎多有需高大好快?？,，。]|$)"
)
_UNITS = ("公里", "千米", "英里", "英尺", "厘米", "毫米", "公斤", "千克", "斤", "克", "磅", "升", "毫升", "美元", "欧元", "人民币",
          "日元", "英镑", "摄氏", "华氏", "小时", "分钟", "秒", "天", "周", "月", "年", "岁", "平方米", "%")  # fmt: skip


def is_chinese(text: str) -> bool:
    """Whether at least a third of the letters are Han, kana or Hangul."""
    letters = len(_LETTER.findall(text))
    return letters > 0 and 3 * len(_HAN.findall(text)) >= letters


def plain(text: str) -> str:
    """The text with words of one meaning written alike."""
    text = unicodedata.normalize("NFKC", text).lower()
    for word, name in _SAME:
        text = text.replace(word, name)
    return text


def content_of(text: str) -> str:
    """What remains without filler; the text itself where nothing does."""
    text = plain(text)
    return _FILLER.sub("", text) or text


def numbers_of(text: str) -> list[float]:
    """The numbers, in digits or in Chinese, in order."""
    return [_value(found) for found in _NUMBER.findall(_NOT_NUMBERS.sub(" ", text))]


def _value(numeral: str) -> float:
    if numeral[0].isdigit():
        return float(numeral)
    total = section = digit = 0
    for c in numeral:
        if c in _NUMERALS:
            digit = digit * 10 + _NUMERALS[c] if digit else _NUMERALS[c]
        elif c in "十百千":
            section += (digit or 1) * {"十": 10, "百": 100, "千": 1000}[c]
            digit = 0
        else:
            total = (total + section + digit or 1) * {"万": 10**4, "亿": 10**8}[c]
            section = digit = 0
    return float(total + section + digit)


def reason_apart(one: str, other: str) -> str | None:
    """Why two Chinese texts ask for different things, as far as single rules can tell."""
    mine, theirs = plain(one), plain(other)
    if sorted(numbers_of(mine)) != sorted(numbers_of(theirs)) or _units(mine) != _units(theirs):
        return "numbers"
    if _negations(mine) != _negations(theirs):
        return "negation"
    if _opposed(mine, theirs):
        return "opposites"
    if _turned_round(mine, theirs):
        return "direction"
    if sorted(re.findall(r"[a-z][a-z0-9+#._-]*", mine)) != sorted(re.findall(r"[a-z][a-z0-9+#._-]*", theirs)):
        return "names"
    return None


def _units(text: str) -> set[str]:
    after_numbers = re.findall(r"[\d零一二三四五六七八九十百千万两]\s*(\D{1,3})", _NOT_NUMBERS.sub(" ", text))
    return {unit for unit in _UNITS if any(found.startswith(unit) for found in after_numbers)}


def _negations(text: str) -> int:
    return len(_NEGATION.findall(_WHETHER_NOT.sub("", text))) % 2


def _opposed(one: str, other: str) -> bool:
    for left, right in _OPPOSITES:
        if left in one and right in other and left not in other and right not in one:
            return True
        if right in one and left in other and right not in other and left not in one:
            return True
    return False


def _turned_round(one: str, other: str) -> bool:
    mine, theirs = _ends(one), _ends(other)
    if mine is not None and theirs is not None and mine == theirs[::-1]:
        return True
    return sorted(one) == sorted(other) and _differ_by_a_swap(content_of(one), content_of(other))


def _ends(text: str) -> tuple[str, str] | None:
    found = _DIRECTION.search(text)
    if found is None:
        return None
    start, end = (found[1], found[2]) if found[1] else (found[3], found[4])
    return _FILLER.sub("", start), _FILLER.sub("", end)


def _differ_by_a_swap(one: str, other: str) -> bool:
    """`狗咬人` and `人咬狗`: the same characters of content, in another order, and not merely rotated."""
    return one != other and not any(one[at:] + one[:at] == other for at in range(len(one)))


def asks_apart(kind: str, other: str) -> bool:
    """Whether one thing that is asked for is plainly not the other."""
    return kind != other and frozenset((kind, other)) not in _COMPATIBLE


def asks(text: str) -> str:
    """What is asked for, by the words that ask; `none` where there are none."""
    text = _WHAT_IS.sub("什么", text)
    return next((kind for kind, words in _ASKING if re.search(words, text)), "none")
