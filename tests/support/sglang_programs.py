"""Programs in SGLang's frontend language, run in an environment of its own: `python sglang_programs.py URL`.

Prints one JSON object: what each program found, for test_sglang_frontend.py to judge.
"""

import json
import sys

import sglang as sgl

# The three programs of the "Radix Attention" chapter, as they are printed there.


@sgl.function
def multi_turn_chat(s, question):
    s += sgl.system("你是一个有帮助的 AI 助手。")
    s += sgl.user(question)
    s += sgl.assistant(sgl.gen("answer", max_tokens=100))


@sgl.function
def qa_with_examples(s, question):
    # 这部分会被缓存和复用
    s += "以下是一些问答示例：\n"
    s += "问：什么是 Python？\n答：Python 是一种编程语言。\n"
    s += "问：什么是 Java？\n答：Java 是一种面向对象的编程语言。\n"
    s += "问：什么是 JavaScript？\n答：JavaScript 是一种 Web 编程语言。\n"

    # 实际问题
    s += f"问：{question}\n答："
    s += sgl.gen("answer", max_tokens=100, stop="\n")


@sgl.function
def multi_turn(s):
    s += sgl.system("你是一个有帮助的助手。")

    # 第一轮
    s += sgl.user("你好！")
    s += sgl.assistant(sgl.gen("r1", max_tokens=50))

    # 第二轮 (复用第一轮的 KV Cache)
    s += sgl.user("今天天气怎么样？")
    s += sgl.assistant(sgl.gen("r2", max_tokens=50))

    # 第三轮 (复用前两轮的 KV Cache)
    s += sgl.user("有什么建议吗？")
    s += sgl.assistant(sgl.gen("r3", max_tokens=50))


# What else the language has.


@sgl.function
def branches(s, mode):
    s += "A radix tree is a tree of prefixes, and a page holds the KV of a few tokens. In other words,"
    forks = s.fork(3)
    for index, fork in enumerate(forks):
        fork += f" ({index})" + sgl.gen("thought", max_tokens=6)
    forks.join(mode)
    s += " So" + sgl.gen("end", max_tokens=4)


@sgl.function
def choose(s):
    s += "Question: what does a radix tree share? Answer:"
    s += sgl.select("what", [" prefixes", " nothing at all", " weights and biases"])
    s += " because " + sgl.gen("why", choices=["it is a tree", "it is not"])


@sgl.function
def constrained(s):
    s += "address " + sgl.gen("address", max_tokens=24, regex=r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
    s += "\nnumber " + sgl.gen("number", max_tokens=6, dtype=int)
    s += "\nobject " + sgl.gen("object", max_tokens=60, json_schema=json.dumps(SCHEMA))


SCHEMA = {
    "type": "object",
    "properties": {"pages": {"type": "integer", "minimum": 0, "maximum": 99}, "full": {"type": "boolean"}},
    "required": ["pages", "full"],
    "additionalProperties": False,
}


@sgl.function
def too_long(s):
    s += "word " * 20_000 + sgl.gen("never", max_tokens=4)


def answers(state, *names):
    """What a finished program generated, how it ended, and what was cached of its prompt."""
    found = {}
    for name in names:
        meta = state.get_meta_info(name)
        found[name] = {
            "text": state[name],
            "finish": meta["finish_reason"],
            "prompt_tokens": meta["prompt_tokens"],
            "cached_tokens": meta["cached_tokens"],
        }
    return found


def main(url):
    backend = sgl.RuntimeEndpoint(url)
    sgl.set_default_backend(backend)
    backend.flush_cache()
    found = {
        "model": backend.get_model_name(),
        "template": backend.get_chat_template().name,
        "page_size": backend.get_server_info()["page_size"],
        "chats": [
            answers(multi_turn_chat.run(question=question, temperature=0), "answer")
            for question in ("什么是机器学习？", "什么是深度学习？", "什么是强化学习？")
        ],
        "examples": [
            answers(state, "answer")
            for state in qa_with_examples.run_batch(
                [{"question": question} for question in ("什么是 C++？", "什么是 Rust？", "什么是 Go？")],
                temperature=0,
            )
        ],
    }
    chatml = sgl.RuntimeEndpoint(url, chat_template_name="chatml")
    state = multi_turn.run(temperature=0, backend=chatml)
    found["turns"] = {**answers(state, "r1", "r2", "r3"), "roles": [m["role"] for m in state.messages()]}
    for mode in ("gather_variable", "concate_and_append"):
        state = branches.run(mode=mode, temperature=0)
        found[mode] = {"text": state.text(), "end": state["end"]}
        if mode == "gather_variable":
            found[mode]["thoughts"] = state["thought"]
    state = choose.run(temperature=0)
    scores = state.get_meta_info("what")["normalized_prompt_logprobs"]
    found["choice"] = {"what": state["what"], "scores": scores, "why": state["why"]}
    state = constrained.run(temperature=0)
    found["constrained"] = answers(state, "address", "number", "object")

    question = {"question": "What is a radix tree?", "temperature": 0, "backend": chatml}
    found["whole"] = multi_turn_chat.run(**question)["answer"]
    found["pieces"] = list(multi_turn_chat.run(**question, stream=True).text_iter("answer"))
    scored = multi_turn_chat.run(**question, return_logprob=True, top_logprobs_num=2)
    meta = scored.get_meta_info("answer")
    found["scored"] = {
        "tokens": meta["completion_tokens"],
        "logprobs": len(meta["output_token_logprobs"]),
        "top": [len(entry) for entry in meta["output_top_logprobs"]],
    }
    try:
        found["too_long"] = too_long.run()["never"]
    except (KeyError, RuntimeError):
        found["too_long"] = None
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
