"""Which model is meant by a name."""

from __future__ import annotations

import pytest

from radixway.chat.model_configs import ModelConfigCatalog, ServedModelConfig, load_published

PUBLISHED = load_published()[0]


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda model: model.name)
def test_published_models_are_found_in_the_overviews_spelling(model: ServedModelConfig) -> None:
    models = ModelConfigCatalog(PUBLISHED)
    *words, last = model.name.removeprefix("OA_").lower().split("_")
    for spelling in (model.name, "-".join([*words, last]), "-".join([last, *words])):
        found = models.find_config(spelling)
        assert found is not None and found.name == model.name


def test_the_overviews_own_example_is_found() -> None:
    found = ModelConfigCatalog(PUBLISHED).find_config("llama-30b-sft-6")
    assert found is not None and found.name == "OA_SFT_Llama_30B_6"


def test_a_name_that_may_mean_several_means_none() -> None:
    several = [ServedModelConfig(name, name, 1, 2) for name in ("a-b", "b_a")]
    models = ModelConfigCatalog(several, lambda: ["served"])
    assert models.find_config("A-B") is None and models.find_config("a") is None
    assert models.find_config("a-b") == several[0]
    served = models.find_config("served")
    assert served is not None and served.model_id == "served"
