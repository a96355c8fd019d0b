"""Of the page *Simulate*."""

from radixway.console.texts.said import Said

TEXTS = {
    "page.simulate": Said("Simulate", "模拟"),
    "simulate.title": Said("Simulate", "模拟"),
    "simulate.hint": Said(
        "Which policy suits a load? A trace is replayed against modelled engines by the gateway's own "
        "selector, once for each policy.",
        "哪种策略适合您的负载？用网关自身的选择器，在模拟引擎上为每种策略重放一次轨迹。",
    ),
    "simulate.order": Said("What to simulate", "模拟设置"),
    "simulate.trace": Said("Trace", "请求轨迹"),
    "simulate.sample.recent": Said("The latest requests of this gateway", "本网关的最近请求"),
    "simulate.sample.chats": Said("Made up: chats with six assistants", "示例：与六个助手的对话"),
    "simulate.sample.agents": Said("Made up: agents with long instructions", "示例：带长指令的智能体"),
    "simulate.sample.documents": Said("Made up: questions about documents", "示例：文档问答"),
    "simulate.sample.upload": Said("A file of my own", "上传文件"),
    "simulate.drop": Said(
        "JSON lines, gzipped or not, up to {most} MiB", "JSON 行，可用 gzip 压缩，最大 {most} MiB"
    ),
    "simulate.too_large": Said("This file is too large.", "文件过大。"),
    "simulate.no_file": Said("Choose a file first.", "请先选择文件。"),
    "simulate.no_policy": Said("Choose a policy first.", "请先选择策略。"),
    "simulate.policies": Said("Policies", "策略"),
    "simulate.policies_hint": Said(
        "With parameters: type kv_aware:overlap_weight=8 and Enter.",
        "可带参数：输入 kv_aware:overlap_weight=8 后按回车。",
    ),
    "simulate.workers": Said("Workers", "节点数"),
    "simulate.kv_tokens": Said("KV tokens each", "每节点 KV 词元"),
    "simulate.speedup": Said("Speed-up", "加速倍数"),
    "simulate.limit": Said("First requests only", "仅前若干请求"),
    "simulate.events": Said("Workers publish KV events", "节点发布 KV 事件"),
    "simulate.engine": Said("Engine constants", "引擎参数"),
    "simulate.run": Said("Compare", "开始比较"),
    "simulate.jobs": Said("Simulations", "模拟任务"),
    "simulate.none": Said("None yet.", "暂无。"),
    "simulate.of": Said("{policies} policies, {workers} workers", "{policies} 种策略，{workers} 个节点"),
    "simulate.state.waiting": Said("waiting", "等待中"),
    "simulate.state.running": Said("running", "运行中"),
    "simulate.state.done": Said("done", "完成"),
    "simulate.state.failed": Said("failed", "失败"),
    "simulate.state.cancelled": Said("cancelled", "已取消"),
    "simulate.cancel": Said("Cancel this simulation", "取消此任务"),
    "simulate.forget": Said("Forget this simulation", "删除此任务"),
    "simulate.progress": Said("Progress", "进度"),
    "simulate.sent": Said("{sent} of {total} requests", "{sent} / {total} 条请求"),
    "simulate.download": Said("Download", "下载"),
    "simulate.trace_was": Said(
        "{requests} requests with {tokens} M prompt tokens in {seconds} s; {workers} workers of {kv_tokens} "
        "KV tokens; simulated in {took} s.",
        "{seconds} 秒内 {requests} 条请求，{tokens} 百万提示词元；{workers} 个节点，"
        "各 {kv_tokens} KV 词元；模拟用时 {took} 秒。",
    ),
    "simulate.skipped": Said(
        "{count} requests were left out: no worker's cache has room for them.",
        "{count} 条请求被略去：缓存容纳不下。",
    ),
    "simulate.policy": Said("Policy", "策略"),
    "simulate.figure.ttft_mean_s": Said("TTFT mean", "首词元 平均"),
    "simulate.figure.ttft_p50_s": Said("p50", "p50"),
    "simulate.figure.ttft_p99_s": Said("p99", "p99"),
    "simulate.figure.itl_mean_s": Said("ITL mean", "词元间隔"),
    "simulate.figure.hit_rate": Said("Hit rate", "命中率"),
    "simulate.figure.expected_hit_rate": Said("expected", "预期"),
    "simulate.figure.imbalance": Said("Imbalance", "失衡"),
    "simulate.figure.request_imbalance": Said("of requests", "请求失衡"),
    "simulate.chart.ttft": Said("Time to first token", "首词元时间"),
    "simulate.chart.ttft.hint": Said(
        "Share of requests that waited no longer.", "等待不超过该时间的请求比例。"
    ),
    "simulate.chart.over_time": Said("Over time", "随时间变化"),
    "simulate.chart.over_time.hint": Said(
        "Mean time to first token of those who came then.", "当时到达的请求的平均首词元时间。"
    ),
    "simulate.chart.hits": Said("Hit rate", "命中率"),
    "simulate.chart.hits.hint": Said(
        "Prompt tokens that were in the worker's cache.", "命中节点缓存的提示词元比例。"
    ),
    "simulate.chart.balance": Said("Balance", "均衡"),
    "simulate.chart.balance.hint": Said(
        "Each worker's share of the work, the busiest first.", "各节点承担的工作比例，最忙者在前。"
    ),
}
