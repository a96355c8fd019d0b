"""The operator: pools of workers and gateways' rules as resources of Kubernetes (`Model`, `RouterPolicy`).

kopf watches and retries; what a resource wants is decided by pure functions, and one client sends it.
"""

from radixway.scale.operator.run import NoCluster, OperatorSettings, run_operator

__all__ = ["NoCluster", "OperatorSettings", "run_operator"]
