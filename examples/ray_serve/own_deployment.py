"""A deployment of anybody's, with Radixway's request router in the place of Ray's.

serve run examples.ray_serve.own_deployment:app     # or: python examples/ray_serve/own_deployment.py
"""

import ray
from ray import serve
from ray.serve.config import RequestRouterConfig


@serve.deployment(
    num_replicas=2,
    ray_actor_options={"num_cpus": 0},
    request_router_config=RequestRouterConfig(
        request_router_class="radixway.cluster.ray_router:PrefixAffinityRouter",
        request_router_kwargs={"imbalanced_threshold": 10, "match_rate_threshold": 0.1},
    ),
)
class Model:
    """Stands in for one that keeps a KV cache: it only says which replica it is."""

    async def __call__(self, body: dict) -> str:
        return serve.get_replica_context().replica_id.unique_id


app = Model.bind()


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    serve.start(proxy_location="Disabled")
    model = serve.run(app, name="own", route_prefix=None)
    for topic in ("history", "physics", "cooking"):
        system = f"You know everything about {topic}, and nothing about anything else. " * 8
        for question in ("Who?", "When?", "Why?"):
            messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
            replica = model.remote({"messages": messages}).result()
            print(f"{topic:8} {question:6} {replica}")
    serve.shutdown()
    ray.shutdown()
