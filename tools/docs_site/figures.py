"""The figures of the concepts: `python tools/docs_site/figures.py` writes them into docs/figures."""

from __future__ import annotations

from pathlib import Path

from draw import Drawing

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"


def one_pipeline() -> Drawing:
    """The steps of a request, and its one record."""
    sheet = Drawing(860, 330, "One request: endpoint, pipeline, selector, worker, and the journal beneath")
    sheet.box(10, 60, 92, 62, "client", "HTTP, Envoy,", "Python")
    sheet.box(134, 60, 104, 62, "endpoint", "OpenAI, SGLang,", "chats …", kind="cool")
    steps = ("tenant", "guard", "detect", "cache", "decide", "tools", "record", "retry")
    sheet.bar(268, 44, 306, 94, "none")
    sheet.text(421, 36, "pipeline: each step may answer, change, or pass on", kind="faint", anchor="middle")
    for number, step in enumerate(steps):
        sheet.box(280 + number % 4 * 72, 54 + number // 4 * 40, 66, 32, step, kind="sun")
    sheet.box(604, 60, 104, 62, "selector", "prefix + load,", "in seconds", kind="cool")
    for number, name in enumerate(("engine", "vLLM, TGI", "SGLang …")):
        sheet.box(748, 28 + number * 44, 102, 34, name, kind="warm")
    sheet.way((102, 84), (132, 84))
    sheet.way((238, 84), (266, 84))
    sheet.way((574, 84), (602, 84))
    for number in range(3):
        sheet.way((708, 84), (746, 45 + number * 44))
    sheet.way((746, 150), (726, 164), (56, 164), (56, 126), back=True)
    sheet.text(
        421, 181, "the worker's bytes, untouched, back through the same steps", kind="faint", anchor="middle"
    )
    sheet.box(
        134, 206, 574, 36, "the request's journal: what each step saw and decided, never a text", kind="cool"
    )
    for x in (186, 421, 656):
        sheet.way((x, 186), (x, 204))
    told = ("x- headers", "/explain/{id}", "spans", "metrics", "console")
    for number, name in enumerate(told):
        sheet.box(134 + number * 117, 278, 106, 32, name)
        sheet.way((187 + number * 117, 242), (187 + number * 117, 276))
    return sheet


def one_radix_tree() -> Drawing:
    """What is shared is kept once."""
    sheet = Drawing(
        860, 300, "A radix tree: three conversations share their beginning, and each edge carries a payload"
    )
    sheet.box(20, 120, 64, 40, "root")
    sheet.box(140, 110, 190, 60, "You are a helpful", "assistant. User: What is", kind="sun")
    sheet.way((84, 140), (138, 140))
    sheet.box(400, 40, 140, 44, "a radix tree?", kind="sun")
    sheet.box(400, 196, 140, 44, "a KV cache?", kind="sun")
    sheet.way((330, 130), (398, 64))
    sheet.way((330, 150), (398, 216))
    sheet.box(600, 14, 230, 40, "Assistant: A tree that …", kind="sun")
    sheet.box(600, 70, 230, 40, "Assistant: Think of a trie …", kind="sun")
    sheet.way((540, 56), (598, 36))
    sheet.way((540, 68), (598, 88))
    sheet.box(600, 198, 230, 40, "Assistant: Keys and values …", kind="sun")
    sheet.way((540, 218), (598, 218))
    sheet.text(235, 190, "an edge is a slice; where", kind="faint", anchor="middle")
    sheet.text(235, 206, "two texts part, it splits,", kind="faint", anchor="middle")
    sheet.text(235, 222, "and its payload with it", kind="faint", anchor="middle")
    uses = (
        "KV pages (engine)",
        "exact tokens (trajectories)",
        "who has seen it (routing)",
        "pages in memory, on disk",
    )
    sheet.text(20, 282, "payload:", kind="strong")
    for number, use in enumerate(uses):
        sheet.box(90 + number * 190, 262, 180, 30, use, kind="cool")
    return sheet


def blocks_and_events() -> Drawing:
    """How a gateway knows what is in other machines' caches."""
    sheet = Drawing(
        860,
        330,
        "A prompt becomes named blocks; workers tell which they hold; the index knows who holds how much",
    )
    sheet.text(
        20,
        24,
        "a prompt's tokens, 16 a block; each block is named for itself and all before it",
        kind="strong",
    )
    names = ("b1", "b2", "b3", "b4")
    for number, name in enumerate(names):
        kind = "sun" if number < 3 else "box"
        sheet.box(
            20 + number * 116,
            40,
            104,
            40,
            f"{name} = h({'b' + str(number) + ',' if number else ''}ids)",
            kind=kind,
            code=True,
        )
        if number:
            sheet.way((20 + number * 116 - 12, 60), (20 + number * 116 - 1, 60))
    sheet.text(500, 64, "b4 is nobody's yet: it is what must be computed", kind="faint")
    sheet.box(20, 200, 150, 54, "gpu1's engine", "holds b1 b2 b3", kind="warm")
    sheet.box(20, 266, 150, 54, "gpu2's engine", "holds b1", kind="warm")
    sheet.box(330, 206, 190, 104, "block index", "b1: gpu1, gpu2", "b2: gpu1", "b3: gpu1", kind="cool")
    sheet.way((170, 227), (328, 236), back=True)
    sheet.way((170, 293), (328, 276), back=True)
    sheet.text(248, 214, "BlockStored, BlockRemoved", kind="faint", anchor="middle")
    sheet.text(248, 312, "over ZeroMQ, numbered", kind="faint", anchor="middle")
    sheet.way((190, 82), (190, 130), (425, 130), (425, 204))
    sheet.text(432, 160, "who holds the longest beginning?", kind="faint")
    sheet.box(
        610,
        206,
        230,
        104,
        "answer, in microseconds",
        "gpu1: 48 tokens cached",
        "gpu2: 16 tokens cached",
        "others: none",
    )
    sheet.way((520, 258), (608, 258))
    return sheet


def expected_time() -> Drawing:
    """The candidates of docs/routing.md's example."""
    sheet = Drawing(
        860,
        250,
        "Expected time: gpu1 waits longer but holds most of the prompt, so its first token comes sooner",
    )
    sheet.text(20, 26, "a prompt of 1,924 tokens: where is its first token expected soonest?", kind="strong")
    scale = 7.6
    rows = (
        (
            "gpu1, holds 1,600 of them",
            (("cool", 46.276, "46.3 waits"), ("warm", 12.495, "12.5"), ("sun", 0.625, "")),
            "59.4 ms",
        ),
        ("gpu2, holds none", (("warm", 74.196, "74.2 computes"),), "74.2 ms"),
    )
    for number, (name, parts, total) in enumerate(rows):
        y = 60 + number * 70
        sheet.text(20, y + 14, name)
        x = 200.0
        for kind, ms, words in parts:
            sheet.bar(round(x, 1), y - 6, round(ms * scale, 1), 32, kind)
            if words:
                sheet.text(round(x + ms * scale / 2, 1), y + 14, words, kind="faint", anchor="middle")
            x += ms * scale
        sheet.text(round(x + 8, 1), y + 14, total, kind="strong" if number == 0 else "")
    for number, (kind, words) in enumerate(
        (
            ("cool", "prefills before it"),
            ("warm", "its own tokens that are not cached"),
            ("sun", "answers that it slows down"),
        )
    ):
        sheet.bar(200 + number * 232 - (60 if number == 1 else 0), 204, 16, 16, kind)
        sheet.text(222 + number * 232 - (60 if number == 1 else 0), 217, words, kind="faint")
    sheet.text(20, 217, "milliseconds", kind="faint")
    return sheet


def meaning_first() -> Drawing:
    """One reading, many judges."""
    sheet = Drawing(
        860,
        320,
        "Meaning first: one encoder pass feeds signals; guard, cache and decision judge what they found",
    )
    sheet.box(10, 120, 130, 56, "the texts", "of a request")
    sheet.box(180, 120, 120, 56, "encoder", "one pass", kind="cool")
    sheet.way((140, 148), (178, 148))
    signals = ("personal data", "attacks", "literal repeat", "vector", "words, language", "domain, entropy")
    for number, signal in enumerate(signals):
        sheet.box(340, 14 + number * 46, 132, 36, signal, kind="sun")
        sheet.way((300, 148), (338, 32 + number * 46))
    judges = (
        ("guard", "mask, redact, route, block"),
        ("semantic cache", "the same question before?"),
        ("decision", "rules, then category"),
    )
    for number, (name, words) in enumerate(judges):
        sheet.box(520, 34 + number * 88, 190, 56, name, words, kind="cool")
        for each in range(2):
            sheet.way((472, 32 + (number * 2 + each) * 46), (518, 62 + number * 88))
    sheet.box(748, 34, 102, 56, "refused", "or made safe", kind="warm")
    sheet.box(748, 122, 102, 56, "answered", "from the cache", kind="warm")
    sheet.box(748, 200, 102, 76, "model", "system prompt,", "thinking, tools", kind="warm")
    for y, end in ((62, 62), (150, 150), (238, 238)):
        sheet.way((710, y), (746, end))
    sheet.text(
        430,
        308,
        "exact words first, the encoder only where nothing said enough",
        kind="faint",
        anchor="middle",
    )
    return sheet


def exact_tokens() -> Drawing:
    """A conversation as the trainer needs it."""
    sheet = Drawing(
        860,
        270,
        "Exact tokens: a conversation's text, and each token's mask, log-probability and weight version",
    )
    turns = (
        ("User: 2+2?", 3, "box", 0, ""),
        ("Assistant: 4.", 3, "warm", 1, "7"),
        ("User: Sure?", 3, "box", 0, ""),
        ("Assistant: Yes, 4.", 5, "warm", 1, "7 8"),
    )
    labels = ("text", "tokens", "loss mask", "log-prob.", "version")
    for number, label in enumerate(labels):
        sheet.text(16, 47 + number * 38, label, kind="strong")
    x, at, ids = 110, 0, (318, 17, 30, 19, 13, 2, 40, 991, 30, 5302, 11, 220, 19, 2)
    for words, count, kind, mask, versions in turns:
        width = count * 52 - 4
        sheet.box(x, 26, width, 32, words, kind=kind)
        for each in range(count):
            left = x + each * 52
            sheet.box(left, 66, 48, 28, str(ids[at + each]), kind=kind, code=True)
            sheet.text(left + 24, 123, str(mask), kind="code", anchor="middle")
            sheet.text(
                left + 24,
                161,
                f"−.{(at + each) * 7 % 90 + 2:02d}" if mask else "0",
                kind="code faint",
                anchor="middle",
            )
            version = "–" if not versions else versions.split()[-1 if each >= 2 else 0]
            sheet.text(left + 24, 199, version, kind="code", anchor="middle")
        x, at = x + count * 52 + 4, at + count
    sheet.text(
        110,
        236,
        "The second answer was aborted after two tokens while new weights came, and went on from there:",
        kind="faint",
    )
    sheet.text(
        110, 254, "nothing is tokenized again, and every token says which weights sampled it.", kind="faint"
    )
    return sheet


def chats_never_lost() -> Drawing:
    """Where an answer is while things die."""
    sheet = Drawing(
        860,
        320,
        "Chats: message and job in one transaction, leases, token logs, and listeners that may come late",
    )
    sheet.box(10, 40, 110, 56, "who asks", "POST, SSE")
    sheet.box(170, 40, 130, 56, "gateway", "any process")
    sheet.box(370, 24, 210, 190, "", kind="cool")
    sheet.text(475, 46, "database", kind="strong", anchor="middle")
    for number, name in enumerate(
        ("message", "job: pending → in progress", "lease, 30 s at a time", "token log")
    ):
        sheet.box(384, 58 + number * 37, 182, 30, name, kind="sun")
    sheet.way((120, 68), (168, 68))
    sheet.way((300, 68), (382, 73))
    sheet.text(334, 40, "one", kind="faint", anchor="middle")
    sheet.text(334, 54, "transaction", kind="faint", anchor="middle")
    sheet.box(660, 30, 190, 56, "worker A", "dies after no word", kind="none")
    sheet.box(660, 118, 190, 56, "worker B", "gets the job next", kind="warm")
    sheet.way((580, 90), (658, 60))
    sheet.way((580, 130), (658, 146))
    sheet.text(755, 106, "its lease ends, or its line breaks", kind="faint", anchor="middle")
    sheet.way((658, 160), (584, 186), back=True)
    sheet.text(664, 196, "tokens, in order", kind="faint")
    for number, name in enumerate(("a listener", "the same, after a break", "one who comes late")):
        sheet.box(40 + number * 200, 262, 184, 44, name)
    sheet.way((384, 186), (132, 226), (132, 260), back=True)
    sheet.way((430, 214), (332, 260), back=True)
    sheet.way((475, 214), (532, 260), back=True)
    sheet.text(632, 288, "Last-Event-ID: where each goes on", kind="faint")
    return sheet


ALL = (
    one_pipeline,
    one_radix_tree,
    blocks_and_events,
    expected_time,
    meaning_first,
    exact_tokens,
    chats_never_lost,
)


def files() -> dict[str, str]:
    """Each file's name and text."""
    return {f"{draw.__name__.replace('_', '-')}.svg": draw().svg() for draw in ALL}


if __name__ == "__main__":
    for name, text in files().items():
        (FIGURES / name).write_text(text, encoding="utf-8")
