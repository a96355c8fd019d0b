"""Of the page *Prefixes*."""

from radixway.console.texts.said import Said

TEXTS = {
    "page.prefixes": Said("Prefixes", "前缀"),
    "prefixes.title": Said("Prefixes", "前缀"),
    "prefixes.live": Said("Live", "实时"),
    "prefixes.hint": Said(
        "What prompts have in common is computed once and read again. Inside is what they begin with, "
        "outside how they go on; a click goes into a part.",
        "提示的公共部分只计算一次，之后重复使用。内圈是开头，外圈是后续；点击可深入某一部分。",
    ),
    "prefixes.source": Said("Of", "来源"),
    "prefixes.source.requests": Said("latest requests", "最近请求"),
    "prefixes.source.caches": Said("engines' caches", "引擎缓存"),
    "prefixes.source.trajectories": Said("recorded trajectories", "已记录轨迹"),
    "prefixes.view": Said("As", "视图"),
    "prefixes.view.sunburst": Said("sunburst", "旭日图"),
    "prefixes.view.tree": Said("tree", "树"),
    "prefixes.size": Said("Size", "大小"),
    "prefixes.size.requests": Said("how often", "次数"),
    "prefixes.size.tokens": Said("tokens", "词元"),
    "prefixes.most": Said("At most", "最多"),
    "prefixes.all": Said("all", "全部"),
    "prefixes.any_model": Said("any model", "任意模型"),
    "prefixes.tokens": Said("{count} tokens", "{count} 个词元"),
    "prefixes.heat_is": Said("heat {heat}", "热度 {heat}"),
    "prefixes.from_token": Said("from token {begin} on", "从第 {begin} 个词元起"),
    "prefixes.drawing": Said(
        "A drawing of shared prefixes; the table below says the same.", "共享前缀图；下方表格内容相同。"
    ),
    "prefixes.heat.requests": Said("Requests", "请求数"),
    "prefixes.heat.caches": Said("Uses", "使用次数"),
    "prefixes.heat.trajectories": Said("Latest use", "最近使用"),
    "prefixes.nothing.requests": Said(
        "Nothing yet: prompts are read where there is a choice between workers.",
        "暂无内容：只有在多个节点之间选择时才读取提示。",
    ),
    "prefixes.nothing.caches": Said("No engine tells what it caches.", "没有引擎报告其缓存内容。"),
    "prefixes.nothing.trajectories": Said("Nothing is recorded.", "没有任何记录。"),
    "prefixes.shown": Said("{count} parts.", "{count} 个部分。"),
    "prefixes.made_of": Said(
        "Of {requests} requests with {tokens} prompt tokens.",
        "来自 {requests} 条请求，共 {tokens} 个提示词元。",
    ),
    "prefixes.silent": Said("These do not tell: {workers}.", "未报告的节点：{workers}。"),
    "prefixes.table": Said("The same as a table", "以表格显示"),
    "prefixes.prefix": Said("Prefix", "前缀"),
    "prefixes.begin": Said("From token", "起始词元"),
    "prefixes.heat": Said("Heat", "热度"),
    "prefixes.tenants": Said("Asked for by", "使用者"),
    "prefixes.workers": Said("Sent to", "发往"),
    "prefixes.held_by": Said("Held by", "缓存于"),
    "prefixes.last_used": Said("Last used", "最近使用"),
    "prefixes.hidden": Said("Not shown", "未显示"),
    "prefixes.more": Said("{count} more, {tokens} tokens", "另有 {count} 个，共 {tokens} 个词元"),
    "prefixes.tier.device": Said("device", "显存"),
    "prefixes.tier.host": Said("host", "内存"),
    "prefixes.tier.disk": Said("disk", "磁盘"),
    "prefixes.tier.assumed": Said("assumed", "推测"),
}
