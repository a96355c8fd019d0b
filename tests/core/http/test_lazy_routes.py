"""Routes that are read when they are first called or described."""

from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

from radixway.core.http import LazyRouter, include_routes
from radixway.core.http.errors import HttpError


def told_by(app: FastAPI) -> TestClient:
    return TestClient(app, raise_server_exceptions=False)


def make_app(guard=None) -> tuple[FastAPI, list]:
    router = LazyRouter(prefix="/things", tags=["things"], dependencies=[Depends(lambda: None)])

    @router.get("/{thing}")
    async def show(thing: int, times: int = 2) -> dict[str, int]:
        """Show a thing."""
        return {"thing": thing * times}

    @router.put("/{thing}", status_code=201)
    async def change(thing: int, body: dict[str, int]) -> dict[str, int]:
        return body | {"thing": thing}

    app = FastAPI()
    include_routes(app.router, router, guard=guard)
    return app, router.routes


def is_built(route) -> bool:
    return "dependant" in vars(route)


def test_a_route_is_built_at_its_first_request_and_only_that_one():
    app, (show, change) = make_app()
    client = told_by(app)

    assert not is_built(show) and not is_built(change)
    for _ in range(2):
        assert client.get("/things/3?times=5").json() == {"thing": 15}
    assert is_built(show) and not is_built(change)
    answer = client.put("/things/3", json={"size": 4})
    assert (answer.status_code, answer.json()) == (201, {"size": 4, "thing": 3})


def test_what_fits_no_method_or_no_type_is_refused_as_by_fastapi():
    client = told_by(make_app()[0])

    refused = client.delete("/things/3")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")
    assert client.get("/things/three").json()["detail"][0]["loc"] == ["path", "thing"]
    assert client.get("/nothing").status_code == 404


def test_a_guard_is_asked_at_the_first_request_and_after_it():
    asked = []

    def guard(scope):
        asked.append(scope["path"])
        if len(asked) > 1:
            raise HttpError(418, "no more")

    app, (show, _) = make_app(guard)
    client = told_by(app)

    assert client.get("/things/3").status_code == 200
    assert client.get("/things/4").status_code == 500
    assert asked == ["/things/3", "/things/4"] and is_built(show)


def test_openapi_describes_routes_that_were_never_called():
    document = told_by(make_app()[0]).get("/openapi.json").json()

    shown = document["paths"]["/things/{thing}"]
    assert shown["get"]["description"] == "Show a thing." and shown["get"]["tags"] == ["things"]
    assert [parameter["name"] for parameter in shown["get"]["parameters"]] == ["thing", "times"]
    assert "requestBody" in shown["put"] and "201" in shown["put"]["responses"]


def test_a_route_lacks_what_no_route_has():
    _, (show, _) = make_app()

    assert not hasattr(show, "nothing_of_the_kind")
    assert not hasattr(show, "nothing_of_the_kind")
