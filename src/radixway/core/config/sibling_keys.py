"""Finds the keys that could stand in the place of an unknown one."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel


def find_sibling_keys(model: type[BaseModel], at: Sequence[str | int]) -> set[str]:
    """Return the keys that `model` knows at the place `at`, whose last part is the unknown key.

    Parts that are no field, such as names given by users and tags of unions, are passed over.
    """
    found = {model}
    for part in at[:-1]:
        inner = {each for parent in found for each in _models_of_field(parent, part)}
        found = inner or found
    return {field.alias or name for each in found for name, field in each.model_fields.items()}


def _models_of_field(model: type[BaseModel], part: str | int) -> Iterator[type[BaseModel]]:
    for name, field in model.model_fields.items():
        if part in (name, field.alias):
            yield from _models_in(field.annotation)
            return
    if model.model_config.get("extra") == "allow":  # keys given by users, as tenants' names are
        yield from _models_in(get_type_hints(model).get("__pydantic_extra__"))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that a type names: itself, or within unions, lists and mappings."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models_in(each)
