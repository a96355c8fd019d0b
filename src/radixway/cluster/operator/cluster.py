"""The operator's own calls to the API server: what kopf, which only watches, leaves to us."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import kopf
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from radixway.cluster.operator.resources import GROUP, MANAGER, VERSION, KubernetesObject

Login = Callable[[], Awaitable[kopf.ConnectionInfo]]
"""Called for each connection: a pod's token is rotated while it runs."""

_PATHS = {
    "ConfigMap": "api/v1/namespaces/{}/configmaps",
    "HorizontalPodAutoscaler": "apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
    "Model": f"apis/{GROUP}/{VERSION}/namespaces/{{}}/models",
    "PodDisruptionBudget": "apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "RouterPolicy": f"apis/{GROUP}/{VERSION}/namespaces/{{}}/routerpolicies",
    "Service": "api/v1/namespaces/{}/services",
    "StatefulSet": "apis/apps/v1/namespaces/{}/statefulsets",
}
_TIMEOUT = aiohttp.ClientTimeout(total=20)


class Refused(Exception):
    """The API server does not take it; asking again will not help."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Unreachable(Exception):
    """The API server is away, overloaded, or has newer state: asking again may help."""


class Cluster:
    """Reads and writes single objects. Every call raises Refused, or Unreachable after some attempts."""

    def __init__(self, login: Login) -> None:
        self._login = login

    async def get(self, kind: str, namespace: str, name: str) -> KubernetesObject | None:
        """None where there is none."""
        return await self._unless_absent("GET", _path(kind, namespace, name))

    async def list(self, kind: str, namespace: str) -> list[KubernetesObject]:
        """List all objects of a kind in a namespace."""
        listing = await self._call("GET", _path(kind, namespace))
        items: list[KubernetesObject] = listing["items"]
        return items

    async def apply(self, wanted: KubernetesObject, manager: str = MANAGER) -> KubernetesObject:
        """Set these fields of the object, also those that others had set (server-side apply)."""
        metadata = wanted["metadata"]
        path = _path(wanted["kind"], metadata["namespace"], metadata["name"])
        query = {"fieldManager": manager, "force": "true"}
        return await self._call("PATCH", path, query, "application/apply-patch+yaml", wanted)

    async def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object, if it exists."""
        await self._unless_absent("DELETE", _path(kind, namespace, name))

    async def set_status(self, subject: KubernetesObject, status: KubernetesObject) -> None:
        """Replace the object's status; do nothing if the object is gone or has it already."""
        if status == subject.get("status"):
            return
        metadata = subject["metadata"]
        path = _path(subject["kind"], metadata["namespace"], metadata["name"]) + "/status"
        await self._unless_absent("PATCH", path, {}, "application/merge-patch+json", {"status": status})

    async def _unless_absent(self, *call: Any) -> KubernetesObject | None:
        try:
            return await self._call(*call)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    @retry(
        retry=retry_if_exception_type(Unreachable),
        stop=stop_after_attempt(5),
        wait=wait_random_exponential(multiplier=0.1, max=5),
        reraise=True,
    )
    async def _call(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
        body: KubernetesObject | None = None,
    ) -> KubernetesObject:
        account = await self._login()
        headers = account.as_http_headers() | {"content-type": content_type}
        data = None if body is None else json.dumps(body).encode()
        try:
            async with (
                aiohttp.ClientSession(connector=_connector(account), timeout=_TIMEOUT) as session,
                session.request(
                    method, f"{account.server}/{path}", params=query, headers=headers, data=data
                ) as response,
            ):
                if response.status < 400:
                    answer: KubernetesObject = await response.json(content_type=None)
                    return answer
                raise _refusal(response.status, await response.text())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{account.server}: {error or type(error).__name__}") from None


def _connector(account: kopf.ConnectionInfo) -> aiohttp.TCPConnector:
    return aiohttp.TCPConnector(ssl=account.as_ssl_context() if account.server.startswith("https") else False)


def _refusal(status: int, text: str) -> Exception:
    try:
        message = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        message = text[:200]
    if status in (401, 408, 409, 429) or status >= 500:
        return Unreachable(f"{status}: {message}")
    return Refused(status, message)


def _path(kind: str, namespace: str, name: str | None = None) -> str:
    path = _PATHS[kind].format(namespace)
    return path if name is None else f"{path}/{name}"
