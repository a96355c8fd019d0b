"""What strangers' OpenAPI documents offer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.chat.plugins.openapi_operations import parse_document, parse_operations, to_plugin_config
from radixway.chat.plugins.plugin import PluginError

HERE = "https://shop.example/v1/openapi.json"


def document(operation: dict[str, Any], path: str = "/pears/{id}", **more: Any) -> dict[str, Any]:
    return {"openapi": "3.0.2", "paths": {path: operation}, **more}


def test_parameters_go_where_the_document_says() -> None:
    parameters = [
        {"name": "id", "in": "path", "schema": {"type": "integer"}},
        {"name": "tags", "in": "query", "schema": {"type": "array"}},
        {"name": "X-Shop", "in": "header"},
        {"name": "Host", "in": "header"},
        {"name": "session", "in": "cookie"},
    ]
    (pear,) = parse_operations(document({"get": {"operationId": "getPear", "parameters": parameters}}), HERE)
    assert set(pear.parameters["properties"]) == {"id", "tags", "X-Shop"}
    assert pear.parameters["required"] == ["id"]
    url, headers, body = pear.build_request(
        {"id": "a/b?c", "tags": ["red", 2], "X-Shop": "yes", "Host": "evil"}
    )
    assert url == "https://shop.example/pears/a%2Fb%3Fc?tags=red&tags=2"
    assert headers == {"X-Shop": "yes"} and body is None
    with pytest.raises(ValueError, match="missing: id"):
        pear.build_request({})


def test_a_body_is_the_payload() -> None:
    order = {"type": "object", "properties": {"count": {"type": "integer", "enum": [1, 2]}}}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}
    operation = {"post": {"summary": "Buy", "requestBody": {"content": content}}}
    (buy,) = parse_operations(document(operation, "/buy", components={"schemas": {"Order": order}}), HERE)
    assert (buy.name, buy.description, buy.method) == ("post_buy", "Buy", "POST")
    assert buy.parameters["properties"]["payload"]["properties"]["count"]["enum"] == [1, 2]
    url, headers, body = buy.build_request({"payload": {"count": 2}})
    assert url == "https://shop.example/buy" and json.loads(body or b"") == {"count": 2}
    assert headers == {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("servers", "base"),
    [
        ([{"url": "/api/"}], "https://shop.example/api"),
        ([{"url": "https://api.example/x"}], "https://api.example/x"),
        ([{"url": "https://{region}.example"}, {"url": "relative"}], "https://shop.example/v1/relative"),
        ([{"url": "http://[::1"}], "https://shop.example"),
        ("nonsense", "https://shop.example"),
    ],
)
def test_paths_begin_at_the_first_server_that_can_be_read(servers: Any, base: str) -> None:
    (found,) = parse_operations(document({"get": {}}, "/x", servers=servers), HERE)
    assert found.url == f"{base}/x"


def test_references_that_go_round_or_elsewhere_come_to_an_end() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}}
    schemas = {"Node": node, "Self": {"$ref": "#/components/schemas/Self"}}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Node"}}}
    operation = {
        "requestBody": {"content": content},
        "parameters": [
            {"name": "a", "in": "query", "schema": {"$ref": "#/components/schemas/Self"}},
            {"name": "b", "in": "query", "schema": {"$ref": "https://evil.example/schema"}},
            {"$ref": "#/nowhere/at/all"},
        ],
    }
    (found,) = parse_operations(document({"post": operation}, "/x", components={"schemas": schemas}), HERE)
    assert set(found.parameters["properties"]) == {"a", "b", "payload"}
    assert len(json.dumps(found.parameters)) < 1000


def test_of_many_operations_models_are_told_of_some() -> None:
    paths = {f"/x{number}": {"get": {"operationId": f"x{number}"}} for number in range(1000)}
    assert len(parse_operations({"paths": paths}, HERE)) == 32


@pytest.mark.parametrize(
    "text", ["a: &a [1]\nb: *a", "{", "- 1", "", "a: !!python/object:os.system {}", "a: " + "[" * 200_000]
)
def test_documents_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(PluginError):
        parse_document(text)


def test_yaml_is_read_as_json_would_have_it() -> None:
    document = parse_document("on: 2020-01-01\nby: {1: !!set {a, b}, 2020-01-01: y}\nname: pear")
    assert document["name"] == "pear" and json.dumps(document)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
_keys = st.sampled_from(
    ["get", "post", "parameters", "requestBody", "content", "schema", "name", "in", "$ref"]
)
_item = st.recursive(_json, lambda inner: st.dictionaries(_keys, inner, max_size=4), max_leaves=20)


@given(st.dictionaries(st.sampled_from(["/a", "/b", "c"]), _item, max_size=3), _json)
def test_whatever_stands_in_a_document_there_are_operations_or_a_reason(paths: Any, more: Any) -> None:
    whole = {"paths": paths, "servers": more, "components": more}
    try:
        for found in parse_operations(whole, HERE):
            assert found.url.startswith("http") and json.dumps(found.parameters)
    except PluginError as error:
        assert str(error)


@given(st.dictionaries(st.sampled_from(["api", "auth", "name_for_model", "logo_url"]), _json))
def test_whatever_stands_in_a_manifest_it_is_read_or_there_is_a_reason(manifest: Any) -> None:
    try:
        assert to_plugin_config(manifest)["auth"] == {"type": "none"}
    except PluginError as error:
        assert str(error)
