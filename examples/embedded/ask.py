"""A gateway and its engine inside of this script; `python examples/embedded/ask.py "a question"`."""

import sys

from radixway import Radixway

question = " ".join(sys.argv[1:]) or "What is Radixway?"
with Radixway() as radixway:
    with radixway.stream_chat(question, temperature=0, max_tokens=96) as stream:
        for text in stream.texts():
            print(text, end="", flush=True)
    print(f"\n\n{stream.worker} · request {stream.request_id}")
    for step in radixway.explain(stream.request_id)["steps"]:
        print("  ", step)
