"""Of the page *Live*."""

from radixway.console.texts.said import Said

TEXTS = {
    "page.live": Said("Live", "实时"),
    "live.title": Said("Live", "实时"),
    "live.window": Said("Rates and quantiles are of the last ten seconds.", "速率与分位数取最近十秒。"),
    "live.waiting": Said("Reading the gateway's figures …", "正在读取网关数据……"),
    "live.requests": Said("Requests", "请求"),
    "live.errors": Said("Errors", "错误"),
    "live.refused": Said("Refused", "拒绝"),
    "live.tokens": Said("Tokens", "词元"),
    "live.prompt": Said("Tokens in", "输入词元"),
    "live.completion": Said("Tokens out", "输出词元"),
    "live.first_token": Said("First token", "首词元延迟"),
    "live.between": Said("Between tokens", "词元间隔"),
    "live.hits": Said("Prefix hit rate", "前缀命中率"),
    "live.expected": Said("{share} predicted", "预测 {share}"),
    "live.predicted": Said("Predicted", "预测"),
    "live.reported": Said("Reported by workers", "节点报告"),
    "live.semantic": Said("Semantic cache", "语义缓存"),
    "live.load": Said("In hand", "在途"),
    "live.in_flight": Said("At workers", "处理中"),
    "live.queued": Said("In the queue", "排队中"),
    "live.workers": Said("Workers ready", "就绪节点"),
    "live.of": Said("of {count}", "共 {count}"),
    "live.blocked": Said("Blocked", "已拦截"),
    "live.p50": Said("Median", "中位数"),
    "live.p95": Said("95th percentile", "第 95 百分位"),
    "live.per_second": Said("/s", "/秒"),
    "live.ms": Said("ms", "毫秒"),
}
