"""Of the page *Workers*."""

from radixway.console.texts.said import Said

TEXTS = {
    "page.workers": Said("Workers", "工作节点"),
    "workers.title": Said("Workers", "工作节点"),
    "workers.search": Said("Search by URL, model, pool", "按 URL、模型、分组搜索"),
    "workers.url": Said("Worker", "节点"),
}
