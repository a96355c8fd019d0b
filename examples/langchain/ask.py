"""LangChain against Radixway: a stream, a tool call and its result, a batch, and why each went where it went.

python examples/langchain/ask.py [--url http://127.0.0.1:30000] [--model auto]
"""

import argparse
import json
import os
import urllib.request
from typing import Literal

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def requests_in_hand(worker: Literal["gpu1", "gpu2"]) -> int:
    """How many requests a worker has in hand."""
    return {"gpu1": 3, "gpu2": 0}[worker]


def main() -> None:
    parser = argparse.ArgumentParser(description="LangChain through Radixway's OpenAI surface")
    parser.add_argument("--url", default="http://127.0.0.1:30000")
    parser.add_argument("--model", default="auto")
    asked = parser.parse_args()
    model = ChatOpenAI(
        base_url=f"{asked.url}/v1",
        api_key=os.environ.get("RADIXWAY_KEY", "unused"),  # any will do where no tenant has keys
        model=asked.model,
        temperature=0,
        max_tokens=64,
        include_response_headers=True,
    )

    print("streamed: ", end="")
    for chunk in model.stream("What is a radix tree?"):
        print(chunk.content, end="", flush=True)

    question = HumanMessage("How many requests has gpu1 in hand?")
    # A model that is good at tools takes "auto"; the engine's grammar holds any model to "required", and to
    # the fields of the schema and no others where it is strict.
    caller = model.bind_tools([requests_in_hand], tool_choice="required", strict=True)
    calling: AIMessage = caller.invoke([question])
    results = []
    for call in calling.tool_calls:
        print(f"\ntool: {call['name']}({json.dumps(call['args'])})")
        results.append(ToolMessage(str(requests_in_hand.invoke(call["args"])), tool_call_id=call["id"]))
    print("with the result:", model.invoke([question, calling, *results]).content)

    answers = model.batch(["What is a KV cache?", "What is a prefix cache?"])
    for answer in answers:
        request_id = answer.response_metadata["headers"]["x-request-id"]
        with urllib.request.urlopen(f"{asked.url}/explain/{request_id}") as response:
            steps = json.load(response)["steps"]
        chosen = next(step for step in steps if step["step"] == "select")
        print(f"batch: {answer.content!r}\n  {request_id} went to {chosen['worker']} by {chosen['policy']}")


if __name__ == "__main__":
    main()
