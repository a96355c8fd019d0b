"""LlamaIndex against Radixway: a stream, a tool that is called, and an index over a few texts.

python examples/llama_index/ask.py [--url http://127.0.0.1:30000] [--model radixway-guide]
"""

import argparse
import os
from typing import Literal

from llama_index.core import Document, Settings, SummaryIndex
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike


def requests_in_hand(worker: Literal["gpu1", "gpu2"]) -> int:
    """How many requests a worker has in hand."""
    return {"gpu1": 3, "gpu2": 0}[worker]


def main() -> None:
    parser = argparse.ArgumentParser(description="LlamaIndex through Radixway's OpenAI surface")
    parser.add_argument("--url", default="http://127.0.0.1:30000")
    parser.add_argument("--model", default="auto")
    asked = parser.parse_args()
    model = OpenAILike(
        api_base=f"{asked.url}/v1",
        api_key=os.environ.get("RADIXWAY_KEY", "unused"),  # any will do where no tenant has keys
        model=asked.model,
        temperature=0,
        max_tokens=64,
        context_window=2048,
        is_chat_model=True,
        is_function_calling_model=True,
    )

    print("streamed: ", end="")
    for piece in model.stream_chat([ChatMessage(role="user", content="What is a radix tree?")]):
        print(piece.delta, end="", flush=True)

    tool = FunctionTool.from_defaults(requests_in_hand)
    # A model that is good at tools needs no `tool_required`; the engine's grammar holds any model to it.
    calling = model.chat_with_tools([tool], "How many requests has gpu1 in hand?", tool_required=True)
    for call in model.get_tool_calls_from_response(calling):
        print(f"\ntool: {call.tool_name}({call.tool_kwargs}) = {tool(**call.tool_kwargs).raw_output}")

    Settings.llm = model
    index = SummaryIndex.from_documents([Document(text="Radixway routes requests to cached prefixes.")])
    print("indexed:", index.as_query_engine().query("What does Radixway do?"))


if __name__ == "__main__":
    main()
