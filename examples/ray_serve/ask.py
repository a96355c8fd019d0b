"""What runs in Ray, asked twice: over HTTP through the gateway, and by handle from within the cluster.

python examples/ray_serve/ask.py [--url http://127.0.0.1:30000]
"""

import argparse
import json
import urllib.request

import ray
from ray import serve

BODY = {
    "model": "radixway-guide",
    "messages": [{"role": "user", "content": "What is a radix tree?"}],
    "temperature": 0,
    "max_tokens": 48,
}


def over_http(url: str) -> tuple[str, str]:
    """An answer through the gateway, and the engine that gave it."""
    headers = {"content-type": "application/json"}
    asked = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(BODY).encode(), headers)
    with urllib.request.urlopen(asked) as response:
        answer = json.load(response)["choices"][0]["message"]["content"]
        request_id = response.headers["x-request-id"]
    with urllib.request.urlopen(f"{url}/explain/{request_id}") as response:
        steps = json.load(response)["steps"]
    return answer, next(step["worker"] for step in steps if step["step"] == "select")


def by_handle() -> str:
    """An answer from an engine's replica, by Ray's own calls."""
    ray.init(address="auto", namespace="serve", log_to_driver=False, ignore_reinit_error=True)
    engine = serve.get_deployment_handle("engine", "radixway").options(stream=True)
    answer = b"".join(engine.ask.remote(BODY))
    return json.loads(answer)["choices"][0]["message"]["content"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Ask an application of Ray Serve")
    parser.add_argument("--url", default="http://127.0.0.1:30000")
    url = parser.parse_args().url
    answer, engine = over_http(url)
    print(f"over HTTP, by {engine}: {answer}")
    print(f"by handle: {by_handle()}")
