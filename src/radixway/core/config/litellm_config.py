"""From a LiteLLM proxy's `config.yaml` to `radixway.yaml`, and what of it could not be taken."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isfinite
from typing import Any, NamedTuple

from radixway.core.config.hosted import find_mistake
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

    @property
    def is_own(self) -> bool:
        """True for a worker of one's own."""
        return "url" in self.worker


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
        self._names: set[str] = set()
        """Names of the file's models, and those that are made of them."""
        self._served: set[str] = set()
        """Names of models that a worker has."""
        self._aliases: dict[str, dict[str, float]] = {}
        """By name, what it stands for, with weights."""
        self._places: dict[str, Place] = {}
        """Places of the aliases that the file names so."""
        self._ends: dict[str, str] = {}
        """By a name whose deployments have an order, the name of the last ones."""
        self._fallbacks: list[tuple[str, list[str], Place]] = []
        self._routing: dict[str, Any] = {}
        self._tree: dict[str, Any] = {}
        self._default_tenant: dict[str, Any] = {}
        self._pricing: dict[str, Any] = {}

    def leave_out(self, place: Place, reason: str | None = None) -> None:
        """Note that what stands at `place` was not taken."""
        known = REASONS.get(str(place[-1]), _UNKNOWN) if place else _UNKNOWN
        self._left_out.append(LeftOut(place, reason or known))

    def finish(self) -> ImportedConfig:
        """Return all that was taken."""
        aliases: dict[str, Any] = {}
        for alias in self._aliases:
            models = self._resolve(alias)
            if len(models) > 1:
                aliases[alias] = {"split": models}
            elif models and alias not in models:
                (aliases[alias],) = models
            elif alias in self._places:
                reason = (
                    "a worker has a model of that name" if models else "stands for no model that was taken"
                )
                self.leave_out(self._places[alias], reason)
        if aliases:
            self._routing["model_aliases"] = aliases
        if fallbacks := self._resolve_fallbacks():
            self._routing["fallbacks"] = fallbacks
        tree = {"workers": self._workers} | ({"routing": self._routing} if self._routing else {}) | self._tree
        tenants = {"default": self._default_tenant, "pricing": self._pricing}
        if tenants := {name: section for name, section in tenants.items() if section}:
            tree["tenants"] = tenants
        return ImportedConfig(tree, self._left_out)

    def _resolve(self, name: str, seen: frozenset[str] = frozenset()) -> dict[str, float]:
        """Return the models of workers that `name` stands for, with their weights."""
        if name in self._served:
            return {name: 1.0}
        found: dict[str, float] = {}
        for target, weight in self._aliases.get(name, {}).items() if name not in seen else ():
            for model, share in self._resolve(target, seen | {name}).items():
                found[model] = found.get(model, 0) + weight * share
        return found if any(found.values()) else dict.fromkeys(found, 1.0)

    def _resolve_fallbacks(self) -> dict[str, str]:
        fallbacks: dict[str, str] = {}
        for name, others, place in self._fallbacks:
            able = [other for other in others if self._resolve(other)]
            if not able:
                self.leave_out(place, f"{', '.join(others)}: no model that was taken")
                continue
            if left := [other for other in others if other != able[0]]:
                self.leave_out(
                    place, f"a model has one fallback, which may have its own: {', '.join(left)} left out"
                )
            models = self._resolve(able[0])
            added = dict.fromkeys(self._resolve(name) or [name], max(models, key=models.__getitem__))
            if not added.keys() - fallbacks.keys():
                self.leave_out(place, f"{name} has another fallback")
                continue
            try:
                fallbacks = check_fallbacks(added | fallbacks)
            except ValueError as error:
                self.leave_out(place, str(error))
        return fallbacks

    def add_models(self, entries: list[Any]) -> None:
        """Take `model_list`."""
        by_alias: dict[str, list[_Deployment]] = {}
        for index, entry in enumerate(entries):
            if (found := self._read_entry(entry, ("model_list", index))) is not None:
                by_alias.setdefault(found.alias, []).append(found)
        self._names = set(by_alias)
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
        for name in sorted(info.keys() & REASONS):
            self.leave_out((*place, "model_info", name))
        if isinstance(limit := params.get("max_parallel_requests"), int) and limit > 0:
            worker["max_in_flight"] = limit
        elif limit is not None:
            self.leave_out((*inside, "max_parallel_requests"), f"{limit!r} is no number of requests")
        prices = {}
        for theirs, ours in _PRICES:
            given_price = params.get(theirs, info.get(theirs))
            if (price := _read_number(given_price)) is not None:
                prices[ours] = round(price * 1e6, 9)
            elif given_price is not None:
                self.leave_out((*inside, theirs), f"{given_price!r} is no price")
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
        """Yield each deployment with its model's name here: own workers' have their own.

        Several of one name share its requests, unless they have weights or an order, or only some are own
        workers'.
        """
        orders = sorted({each.order for each in given if each.order is not None})
        if len(orders) > 1:
            names = {order: self._number_name(alias, order) for order in orders} | {orders[0]: alias}
            for before, after in pairwise(orders):
                self._fallbacks.append((names[before], [names[after]], given[0].place))
            self._ends[alias] = names[orders[-1]]
            for each in given:
                yield (
                    self._name_deployment(names[orders[0] if each.order is None else each.order], each),
                    each,
                )
            return
        is_mixed = len({each.is_own for each in given}) > 1
        has_own_name = any(each.is_own and each.model == alias for each in given)
        if has_own_name and is_mixed:
            why = (
                "own workers of one model come first, hosted ones where these cannot answer: routing.overflow"
            )
            self.leave_out(given[0].place, why)
        is_weighed = len(given) > 1 and any(each.weight is not None for each in given)
        if not has_own_name and (is_weighed or is_mixed):
            weights = self._aliases.setdefault(alias, {})
            for number, each in enumerate(given, 1):
                name = each.model if each.is_own else self._number_name(alias, number)
                weights[name] = weights.get(name, 0) + (1.0 if each.weight is None else each.weight)
                yield name, each
            if len(weights) == 1:
                place = (*given[0].place, "litellm_params", "weight")
                self.leave_out(place, "the policy chooses among workers of one model")
        else:
            yield from ((self._name_deployment(alias, each), each) for each in given)

    def _number_name(self, alias: str, number: int) -> str:
        """Return a name for some of the deployments of `alias` that no other model has."""
        name = f"{alias}-{number}"
        while name in self._names:
            name += "-"
        self._names.add(name)
        return name

    def _name_deployment(self, alias: str, each: _Deployment) -> str:
        """Return the name of the model that `alias` stands for."""
        if not each.is_own:
            return alias
        weights = self._aliases.setdefault(alias, {})
        weights[each.model] = weights.get(each.model, 0) + 1
        return each.model

    def _add_deployment(self, name: str, each: _Deployment) -> None:
        worker = each.worker if each.is_own else {**each.worker, "models": {name: each.model}}
        if (mistake := find_mistake(worker)) is not None:
            self.leave_out(each.place, mistake)
            return
        self._served.add(name)
        if each.is_own:
            if not any(other.get("url") == worker["url"] for other in self._workers):
                self._workers.append(worker)
            if each.prices:
                self._pricing[name] = each.prices
            return
        for known in self._workers:
            rest = {key: value for key, value in known.items() if key not in ("models", "name", "pricing")}
            if rest == each.worker and name not in known["models"]:
                worker = known
                worker["models"][name] = each.model
                break
        else:
            if same := sum(_address(other) == _address(worker) for other in self._workers):
                worker = {"name": f"{worker['provider']}-{same + 1}", **worker}
            self._workers.append(worker)
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
                        self._add_alias(str(alias), target, (*place, alias))
                case "allowed_fails" if isinstance(value, int) and value >= 0:
                    self._routing.setdefault("breaker", {})["failures_in_row"] = value + 1
                case "cooldown_time" if isinstance(value, int | float) and value > 0:
                    breaker = self._routing.setdefault("breaker", {})
                    breaker |= {"open_s": value, "open_max_s": max(60, value)}
                case "master_key" if isinstance(value, str) and value:
                    key = {"key": value}
                    if value.startswith(ENVIRONMENT):
                        key = {"key_env": value.removeprefix(ENVIRONMENT)}
                    self._default_tenant["keys"] = [{**key, "scopes": ["user", "admin"]}]
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
                self._fallbacks.append((self._ends.get(str(model), str(model)), names, (*place, index)))

    def _add_alias(self, alias: str, target: Any, place: Place) -> None:
        if isinstance(target, Mapping):
            if target.get("hidden"):
                self.leave_out((*place, "hidden"), "every name is listed")
            target = target.get("model")
        if not isinstance(target, str):
            self.leave_out(place, "names no model")
            return
        self._aliases[alias], self._places[alias] = {target: 1.0}, place

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
    """Return the number, not below 0, that `value` is or writes: YAML takes `1e-6` for a text. None where it
    is none."""
    try:
        number = float(value) if isinstance(value, int | float | str) else inf
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


def _address(worker: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what two hosted workers must not have in common without a name; regions may prove the same."""
    return worker.get("provider"), worker.get("base_url")
