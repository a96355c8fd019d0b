"""What comes next in a series."""

import random
import subprocess
import sys

import pytest

from radixway.cluster.planner.forecast import find_forecast

MODELS = ["kalman", "holt", "arima", "constant"]


@pytest.mark.parametrize("name", MODELS)
def test_a_level_series_goes_on_and_a_higher_probability_asks_for_more(name):
    draw = random.Random(0)
    values = [10 + draw.uniform(-1, 1) for _ in range(30)]
    forecast = find_forecast(name)
    assert forecast(values, 2, 0.5) == pytest.approx(10, abs=1.5)
    assert forecast(values, 2, 0.95) > forecast(values, 2, 0.5)


@pytest.mark.parametrize("name", ["kalman", "holt"])
def test_a_rising_series_is_expected_to_rise(name):
    values = [5 + 0.5 * at for at in range(20)]
    assert find_forecast(name)(values, 3, 0.5) > values[-1] + 0.5


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("values", [[], [3.0], [3.0, 4.0], [0.0] * 20, [7.0] * 20, [9.0] * 10 + [0.0] * 10])
def test_no_series_is_too_short_or_too_flat_and_none_is_expected_below_zero(name, values):
    told = find_forecast(name)(values, 2, 0.8)
    assert 0 <= told < 100


def test_a_missing_statistics_library_is_named_before_anything_is_planned(tmp_path):
    (tmp_path / "statsmodels").mkdir()
    (tmp_path / "statsmodels" / "__init__.py").write_text("raise ModuleNotFoundError(name='statsmodels')")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from radixway.core.config import ConfigError\n"
        "from radixway.cluster.planner.forecast import find_forecast\n"
        "find_forecast('constant')([1.0], 1, 0.5)\n"
        "try: find_forecast('kalman')\n"
        "except ConfigError as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "radixway[planner]" in told.stdout


def test_planning_imports_no_numbers_library_until_one_forecasts():
    code = (
        "import sys; from radixway.cluster.planner.forecast import find_forecast\n"
        "find_forecast('constant')([1.0, 2.0], 1, 0.8)\n"
        "print(sorted({'numpy', 'pandas', 'scipy', 'statsmodels', 'ray'} & sys.modules.keys()))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
