"""Parses manifests and OpenAPI documents of remote plugins into operations that can be called."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import yaml
from yarl import URL

from radixway.chat.plugins.plugin import PluginError

MAX_DOCUMENT_BYTES = 512 << 10
_MAX_YAML_CHARACTERS = 128 << 10
"""Longer YAML is refused, because libyaml blocks the event loop."""
_MAX_OPERATIONS = 32
_MAX_REFERENCE_DEPTH = 8
_MAX_YAML_DEPTH = 100
_MAX_TEXT_CHARACTERS = 2000
_LINKS = ("logo_url", "contact_email", "legal_info_url")
_NOT_HEADERS = {"accept", "authorization", "content-length", "content-type", "cookie", "host"}
_NOT_HEADERS |= {"connection", "te", "transfer-encoding", "upgrade"}
"""Parameters with these names are ignored by OpenAPI, or would change the connection."""


@dataclass(frozen=True, slots=True)
class PluginOperation:
    """An endpoint of an OpenAPI document."""

    name: str
    description: str
    method: str
    url: str
    """URL with `{names}` in place of path parameters."""
    places: dict[str, str]
    """Place of each parameter: `path`, `query` or `header`."""
    parameters: dict[str, Any]
    """JSON Schema of an object; the body, where there is one, is its property `payload`."""

    def build_request(self, arguments: dict[str, Any]) -> tuple[str, dict[str, str], bytes | None]:
        """Return URL, headers and body of a call. Raises ValueError if a required argument is missing."""
        missing = [name for name in self.parameters["required"] if arguments.get(name) is None]
        if missing:
            raise ValueError(f"missing: {', '.join(missing)}")
        url, headers, query = self.url, {}, []
        for name, place in self.places.items():
            for value in _encode_values(arguments.get(name)):
                if place == "path":
                    url = url.replace("{" + name + "}", quote(value, safe=""))
                elif place == "query":
                    query.append((name, value))
                else:
                    headers[name] = value
        body = None
        if self.method == "POST":
            body = json.dumps(arguments.get("payload") or {}).encode()
            headers["content-type"] = "application/json"
        return str(URL(url, encoded=True).update_query(query)), headers, body


def parse_document(text: str) -> dict[str, Any]:
    """Parse `text` as JSON or YAML. Raises PluginError. Much YAML takes seconds: not for the event loop."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        try:
            document = _parse_yaml(text)
        except (yaml.YAMLError, RecursionError, ValueError, TypeError):
            raise PluginError("the document is neither JSON nor YAML that can be read") from None
    if not isinstance(document, dict):
        raise PluginError("the document is no object")
    return document


def _parse_yaml(text: str) -> Any:
    """Parse YAML as JSON types (dates are text). Raises YAMLError, ValueError for aliases or too deep
    nesting: aliases expand few bytes to gigabytes, and libyaml has no depth limit.
    """
    if len(text) > _MAX_YAML_CHARACTERS:
        raise ValueError("too much YAML")
    loader, depth = getattr(yaml, "CSafeLoader", yaml.SafeLoader), 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("aliases are not read")
        if isinstance(event, yaml.CollectionStartEvent | yaml.CollectionEndEvent):
            depth += 1 if isinstance(event, yaml.CollectionStartEvent) else -1
        if depth > _MAX_YAML_DEPTH:
            raise ValueError("too deep")
    return json.loads(json.dumps(yaml.load(text, Loader=loader), default=str, skipkeys=True))


def to_plugin_config(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return `manifest` in the published shape. Raises PluginError if it lacks something or needs a login."""
    api = manifest.get("api")
    if not isinstance(api, dict) or not isinstance(api.get("url"), str):
        raise PluginError("the manifest names no api.url")
    if api.get("type", "openapi") != "openapi":
        raise PluginError("the manifest's api.type is not openapi")
    auth = manifest.get("auth")
    kind = auth.get("type", "none") if isinstance(auth, dict) else auth or "none"
    if kind != "none" or api.get("has_user_authentication") is True:
        raise PluginError("only plugins with auth none can be used")
    names = ("name_for_model", "name_for_human", "description_for_human", "description_for_model")
    texts = {name: _short_text(manifest.get(name)) for name in names}
    if not texts["name_for_model"] and not texts["name_for_human"]:
        raise PluginError("the manifest has no name")
    links = {name: _short_text(manifest.get(name)) or None for name in _LINKS}
    version = _short_text(manifest.get("schema_version")) or "v1"
    return make_plugin_config(texts, "openapi", api["url"][:2048]) | links | {"schema_version": version}


def make_plugin_config(texts: dict[str, str], api_type: str, url: str) -> dict[str, Any]:
    """Return the published shape of a plugin with `texts` (names and descriptions) and an API at `url`."""
    return {
        "schema_version": "v1",
        **texts,
        "api": {
            "type": api_type,
            "url": url,
            "has_user_authentication": False,
            "is_user_authenticated": False,
        },
        "auth": {"type": "none"},
        **dict.fromkeys(_LINKS),
        "endpoints": None,
    }


def parse_operations(document: dict[str, Any], url: str) -> list[PluginOperation]:
    """Return the GETs and POSTs of the `document` found at `url`. Raises PluginError if it has none."""
    base = _base_url(document, url)
    found: dict[str, PluginOperation] = {}
    for path, method, item, operation in _iter_endpoints(document):
        name = _function_name(operation.get("operationId") or f"{method}{path}")
        if name not in found and len(found) < _MAX_OPERATIONS:
            found[name] = _parse_operation(document, base + path, name, method, item, operation)
    if not found:
        raise PluginError("the plugin has no operation with GET or POST")
    return list(found.values())


def _iter_endpoints(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    paths = document.get("paths")
    for path, item in paths.items() if isinstance(paths, dict) else ():
        item = _resolve_reference(document, item)
        for method in ("get", "post"):
            operation = item.get(method)
            if isinstance(path, str) and path.startswith("/") and isinstance(operation, dict):
                yield path, method, item, operation


def _parse_operation(
    document: dict[str, Any],
    url: str,
    name: str,
    method: str,
    item: dict[str, Any],
    operation: dict[str, Any],
) -> PluginOperation:
    places: dict[str, str] = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for given in [*_as_list(item.get("parameters")), *_as_list(operation.get("parameters"))]:
        parameter = _resolve_reference(document, given)
        label, place = parameter.get("name"), parameter.get("in")
        if not isinstance(label, str) or place not in ("query", "path", "header"):
            continue
        if place == "header" and label.lower() in _NOT_HEADERS:
            continue
        places[label] = place
        schema = _inline_references(document, parameter.get("schema") or {}, _MAX_REFERENCE_DEPTH)
        properties[label] = {"description": _short_text(parameter.get("description")), **schema}
        if (parameter.get("required") is True or place == "path") and label not in required:
            required.append(label)
    body = _resolve_reference(document, operation.get("requestBody") or {})
    content = body.get("content")
    if method == "post" and isinstance(content, dict) and isinstance(content.get("application/json"), dict):
        properties["payload"] = _inline_references(
            document, content["application/json"].get("schema") or {}, _MAX_REFERENCE_DEPTH
        )
        required += ["payload"] if body.get("required") is True else []
    schema = {"type": "object", "properties": properties, "required": required}
    text = _short_text(operation.get("summary")) or _short_text(operation.get("description"))
    return PluginOperation(name, text, method.upper(), url, places, schema)


def _base_url(document: dict[str, Any], url: str) -> str:
    """Return the base of the paths: the first server's URL, relative to the document's own."""
    here = URL(url)
    for server in _as_list(document.get("servers")):
        if isinstance(server, dict) and isinstance(server.get("url"), str) and "{" not in server["url"]:
            try:
                return str(here.join(URL(server["url"]))).rstrip("/")
            except ValueError:
                continue
    return str(here.origin())


def _resolve_reference(document: dict[str, Any], value: Any) -> dict[str, Any]:
    """Resolve a reference within the document; anything elsewhere is empty."""
    for _ in range(_MAX_REFERENCE_DEPTH):
        if not isinstance(value, dict):
            return {}
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return value
        value = document if reference.startswith("#/") else None
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            value = value.get(key) if isinstance(value, dict) else None
    return {}


def _inline_references(document: dict[str, Any], schema: Any, depth: int) -> dict[str, Any]:
    """Inline a schema's references, as deep as models can use."""
    schema = _resolve_reference(document, schema)
    inlined = {key: schema[key] for key in ("type", "enum", "default", "format") if key in schema}
    if "description" in schema:
        inlined["description"] = _short_text(schema["description"])
    if depth > 0 and isinstance(schema.get("properties"), dict):
        shown = list(schema["properties"].items())[:_MAX_OPERATIONS]
        inlined["properties"] = {
            str(name): _inline_references(document, part, depth - 4) for name, part in shown
        }
        inlined["required"] = [name for name in _as_list(schema.get("required")) if isinstance(name, str)]
    if depth > 0 and "items" in schema:
        inlined["items"] = _inline_references(document, schema["items"], depth - 4)
    return inlined


def _encode_values(value: Any) -> list[str]:
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    return [item if isinstance(item, str) else json.dumps(item) for item in values]


def _function_name(text: Any) -> str:
    """Return a name that models accept: letters, digits, `_` and `-`, 64 of them."""
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", str(text)).strip("_")[:64] or "call"


def _short_text(value: Any) -> str:
    return value[:_MAX_TEXT_CHARACTERS] if isinstance(value, str) else ""


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
