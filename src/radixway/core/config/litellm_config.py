"""From a LiteLLM proxy's `config.yaml` to `radixway.yaml`, and what of it could not be taken."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isfinite
from typing import Any, NamedTuple

from radixway.core.config.litellm_models import ENVIRONMENT, locate_model
from radixway.core.config.litellm_reasons import REASONS
from radixway.core.config.routing import check_fallbacks
from radixway.core.config.yaml_file import Place

_POLICIES = {
    "simple-shuffle": "random",
    "least-busy": "least_loaded",
    "latency-based-routing": "expected_time",
    "usage-based-routing": "least_loaded",
    "usage-based-routing-v2": "least_loaded",
}
_PRICES = (("input_cost_per_token", "prompt_per_1m"), ("output_cost_per_token", "completion_per_1m"))
_ALWAYS = "is always so here"
_READ_PARAMS = frozenset(
    {
        *("model", "api_key", "api_base", "base_url", "api_version", "aws_region_name", "region_name"),
        *("input_cost_per_token", "output_cost_per_token", "max_parallel_requests", "weight", "order"),
        *("custom_llm_provider", "aws_profile_name", "api_type"),
    }
)
_UNKNOWN = "has no counterpart here"


class LeftOut(NamedTuple):
    """Something of the file that was not taken, or not as it was."""

    place: Place
    reason: str


@dataclass(slots=True)
class ImportedConfig:
    """What a LiteLLM configuration comes to."""

    tree: dict[str, Any] = field(default_factory=dict)
    """`radixway.yaml`."""
    left_out: list[LeftOut] = field(default_factory=list)


class _Deployment(NamedTuple):
    """An entry of `model_list`."""

    place: Place
    alias: str
    worker: dict[str, Any]
    """The worker that has it, without `models` and `name`."""
    model: str
    weight: float | None
    order: int | None
    prices: dict[str, float]


def import_litellm(given: Mapping[str, Any]) -> ImportedConfig:
    """Return what `given`, the tree of a LiteLLM `config.yaml`, comes to. Raises ValueError: it is none."""
    models = given.get("model_list")
    if not isinstance(models, list):
        raise ValueError("this is no configuration of LiteLLM's proxy: it has no model_list")
    importer = _Importer()
    importer.add_models(models)
    for section in ("litellm_settings", "router_settings", "general_settings"):
        fields = given.get(section) or {}
        if isinstance(fields, Mapping):
            importer.add_settings(section, fields)
    others = given.keys() - {"model_list", "litellm_settings", "router_settings", "general_settings"}
    for name in sorted(others):
        importer.leave_out((name,))
    return importer.finish()


class _Importer:
    def __init__(self) -> None:
        self._left_out: list[LeftOut] = []
        self._workers: list[dict[str, Any]] = []
        self._aliases: dict[str, Any] = {}
        self._fallbacks: dict[str, str] = {}
        self._fallback_places: dict[str, Place] = {}
        self._routing: dict[str, Any] = {}
        self._tree: dict[str, Any] = {}
        self._default_tenant: dict[str, Any] = {}

    def leave_out(self, place: Place, reason: str | None = None) -> None:
        """Note that what stands at `place` was not taken."""
        known = REASONS.get(str(place[-1]), _UNKNOWN) if place else _UNKNOWN
        self._left_out.append(LeftOut(place, reason or known))

    def finish(self) -> ImportedConfig:
        """Return all that was taken."""
        routing, aliases = dict(self._routing), self._aliases
        if aliases:
            targets = {alias: deepcopy(aliases.get(str(target), target)) for alias, target in aliases.items()}
            for target in targets.values():
                if isinstance(target, dict):
                    target["split"] = {self._served(model): share for model, share in target["split"].items()}
            routing["model_aliases"] = targets
        fallbacks: dict[str, str] = {}
        for model, other in self._fallbacks.items():
            try:
                check_fallbacks(fallbacks | {self._served(model): self._served(other)})
            except ValueError as error:
                self.leave_out(self._fallback_places.get(model, ()), str(error))
            else:
                fallbacks[self._served(model)] = self._served(other)
        if fallbacks:
            routing["fallbacks"] = fallbacks
        tree = {"workers": self._workers} | ({"routing": routing} if routing else {}) | self._tree
        if self._default_tenant:
            tree["tenants"] = {"default": self._default_tenant}
        return ImportedConfig(tree, self._left_out)

    def _served(self, model: str) -> str:
        """Return the model that a worker serves for `model`, which may be the name of one."""
        target = self._aliases.get(model)
        return target if isinstance(target, str) else model

    def add_models(self, entries: list[Any]) -> None:
        """Take `model_list`."""
        by_alias: dict[str, list[_Deployment]] = {}
        for index, entry in enumerate(entries):
            if (found := self._read_entry(entry, ("model_list", index))) is not None:
                by_alias.setdefault(found.alias, []).append(found)
        for alias, deployments in by_alias.items():
            for name, each in self._name_deployments(alias, deployments):
                self._add_deployment(name, each)

    def _read_entry(self, entry: Any, place: Place) -> _Deployment | None:
        params = entry.get("litellm_params") if isinstance(entry, Mapping) else None
        alias = entry.get("model_name") if isinstance(entry, Mapping) else None
        if not isinstance(params, Mapping) or not (
            isinstance(params.get("model"), str) and isinstance(alias, str)
        ):
            self.leave_out(place, "needs a model_name, and litellm_params with a model")
            return None
        inside = (*place, "litellm_params")
        if "*" in alias or "*" in params["model"]:
            self.leave_out(
                place, "patterns of models cannot be listed: name the models that are to be served"
            )
            return None
        given_info = entry.get("model_info")
        info: Mapping[str, Any] = given_info if isinstance(given_info, Mapping) else {}
        if info.get("mode") == "batch":
            self.leave_out(place, "batches of hosted models are not served")
            return None
        located = locate_model(params, inside, self.leave_out)
        if located is None:
            return None
        worker, model = located
        for name in sorted(params.keys() - _READ_PARAMS):
            self.leave_out((*inside, name))
        for name in sorted(entry.keys() & {"rpm", "tpm"}):
            self.leave_out((*place, name))
        if isinstance(limit := params.get("max_parallel_requests"), int) and limit > 0:
            worker["max_in_flight"] = limit
        prices = {}
        for theirs, ours in _PRICES:
            given_price = params.get(theirs, info.get(theirs))
            if (price := _read_number(given_price)) is not None:
                prices[ours] = round(price * 1e6, 9)
            elif given_price is not None:
                self.leave_out((*inside, theirs), f"{given_price!r} is no number")
        order = params.get("order")
        return _Deployment(
            place,
            alias,
            worker,
            model,
            _read_number(params.get("weight")),
            order if isinstance(order, int) else None,
            prices,
        )

    def _name_deployments(self, alias: str, given: list[_Deployment]) -> Iterator[tuple[str, _Deployment]]:
        """Yield each deployment with its model's name here.

        Several of one name share its requests, unless they have weights or an order.
        """
        orders = sorted({each.order for each in given if each.order is not None})
        if len(orders) > 1:
            names = {order: alias if order == orders[0] else f"{alias}-{order}" for order in orders}
            for before, after in pairwise(orders):
                self._fallbacks[names[before]] = names[after]
            for each in given:
                yield names[orders[0] if each.order is None else each.order], each
        elif len(given) > 1 and any(each.weight is not None for each in given):
            split = {}
            for number, each in enumerate(given, 1):
                split[f"{alias}-{number}"] = 1.0 if each.weight is None else each.weight
                yield f"{alias}-{number}", each
            self._aliases[alias] = {"split": split}
        else:
            yield from ((alias, each) for each in given)

    def _add_deployment(self, name: str, each: _Deployment) -> None:
        if "url" in each.worker:
            if not any(worker.get("url") == each.worker["url"] for worker in self._workers):
                self._workers.append(each.worker)
            if name != each.model:
                self._aliases[name] = each.model
            return
        for worker in self._workers:
            rest = {key: value for key, value in worker.items() if key not in ("models", "name", "pricing")}
            if rest == each.worker and name not in worker["models"]:
                break
        else:
            worker = {**each.worker, "models": {}}
            same = [other for other in self._workers if _address(other) == _address(worker)]
            if same:
                worker = {"name": f"{worker['provider']}-{len(same) + 1}", **worker}
            self._workers.append(worker)
        worker["models"][name] = each.model
        if each.prices:
            worker.setdefault("pricing", {})[name] = each.prices

    def add_settings(self, section: str, fields: Mapping[str, Any]) -> None:
        """Take `fields`, the settings of one `section`."""
        for name, value in fields.items():
            place = (section, name)
            match name:
                case "fallbacks" if isinstance(value, list):
                    self._add_fallbacks(place, value)
                case "num_retries" if isinstance(value, int) and value >= 0:
                    self._tree["pipeline"] = {"retry": {"attempts": value + 1}}
                case "timeout" | "request_timeout" if isinstance(value, int | float) and value > 0:
                    self._tree["gateway"] = {"request_timeout_s": value}
                case "routing_strategy":
                    self._add_strategy(place, value)
                case "model_group_alias" if isinstance(value, Mapping):
                    for alias, target in value.items():
                        model = target.get("model") if isinstance(target, Mapping) else target
                        if isinstance(model, str):
                            self._aliases[str(alias)] = model
                        else:
                            self.leave_out((*place, alias), "names no model")
                case "allowed_fails" if isinstance(value, int) and value >= 0:
                    self._routing.setdefault("breaker", {})["failures_in_row"] = value + 1
                case "cooldown_time" if isinstance(value, int | float) and value > 0:
                    breaker = self._routing.setdefault("breaker", {})
                    breaker |= {"open_s": value, "open_max_s": max(60, value)}
                case "master_key" if isinstance(value, str):
                    key = {"key": value}
                    if value.startswith(ENVIRONMENT):
                        key = {"key_env": value.removeprefix(ENVIRONMENT)}
                    self._default_tenant["keys"] = [{**key, "scopes": ["admin"]}]
                case "max_budget" if isinstance(value, int | float) and value > 0:
                    self._add_budget(place, value, fields.get("budget_duration"))
                case "drop_params" | "modify_params":
                    if value:
                        self.leave_out(place, f"{_ALWAYS}: what a provider does not know is not sent")
                case "budget_duration" | "set_verbose" | "telemetry":
                    pass
                case _:
                    self.leave_out(place)

    def _add_fallbacks(self, place: Place, value: list[Any]) -> None:
        for index, entry in enumerate(value):
            for model, targets in entry.items() if isinstance(entry, Mapping) else ():
                names = [targets] if isinstance(targets, str) else list(targets or ())
                if not names or not all(isinstance(name, str) for name in names) or model == "*":
                    self.leave_out(
                        (*place, index), "must name a model and the models that answer in its place"
                    )
                    continue
                self._fallbacks[str(model)] = names[0]
                self._fallback_places[str(model)] = (*place, index)
                if len(names) > 1:
                    reason = (
                        f"a model has one fallback, which may have its own: {', '.join(names[1:])} left out"
                    )
                    self.leave_out((*place, index), reason)

    def _add_strategy(self, place: Place, value: Any) -> None:
        if (policy := _POLICIES.get(str(value))) is None:
            self.leave_out(
                place, f"{value!r} has no counterpart: the policy is expected_time (docs/routing.md)"
            )
            return
        self._routing["policy"] = policy
        if str(value).startswith("usage"):
            self.leave_out(
                place, "taken as least_loaded: requests in flight are counted, not tokens a minute"
            )

    def _add_budget(self, place: Place, budget: float, duration: Any) -> None:
        days = {"1d": 1, "24h": 1, "30d": 30, "31d": 30, "1mo": 30}.get(str(duration))
        if days is None:
            self.leave_out(place, f"budgets are by day or month, not by {duration!r}")
            return
        self._default_tenant["quotas"] = {"cost_per_day" if days == 1 else "cost_per_month": budget}


def _read_number(value: Any) -> float | None:
    """Return the number that `value` is, or writes: YAML takes `1e-6` for a text. None where it is none."""
    try:
        number = float(value) if isinstance(value, int | float | str) else inf
    except ValueError:
        return None
    return number if isfinite(number) else None


def _address(worker: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what two hosted workers must not have in common without a name."""
    return worker.get("provider"), worker.get("base_url"), worker.get("region")
