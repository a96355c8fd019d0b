"""The operator: pools of workers and gateways' rules as Kubernetes resources (`Model`, `RouterPolicy`).

kopf watches and retries; what a resource wants is decided by pure functions, and one client sends it.
"""

from radixway.cluster.operator.process import ClusterNotConfiguredError, OperatorSettings, run_operator

__all__ = ["ClusterNotConfiguredError", "OperatorSettings", "run_operator"]
