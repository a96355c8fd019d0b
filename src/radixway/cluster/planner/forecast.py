"""Forecasts of a series of rates: statsmodels' models, each behind one function.

`kalman`: a local level with a trend, filtered (`UnobservedComponents`). `holt`: exponential smoothing with a
damped trend. `arima`: (1, 1, 1). `constant`: the last value again. With few values all are `constant`.
"""

import warnings
from collections.abc import Callable, Sequence
from math import isfinite
from statistics import NormalDist, pstdev
from typing import Any

from radixway.core.config import ConfigError

Forecast = Callable[[Sequence[float], int, float], float]
"""(values so far, steps ahead, probability) → what the value so far ahead exceeds with no more than the rest
of that probability; never below 0."""

_MIN_FIT_VALUES = 6
"""Values from which a model is fitted."""


def find_forecast(name: str) -> Forecast:
    """The forecast of that name (see `PlannerConfig.forecast`).

    Raises ConfigError where it needs a package that is not installed.
    """
    if name == "constant":
        return _forecast_constant
    try:
        import statsmodels.tsa.api  # noqa: F401 - found out now rather than with the first forecast
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"scale.planner.forecast: {name} needs the package {error.name}: pip install 'radixway[planner]' "
            "(or choose constant)"
        ) from None
    fit = _FITS[name]

    def forecast(values: Sequence[float], steps: int, share: float) -> float:
        if len(values) < _MIN_FIT_VALUES:
            return _forecast_constant(values, steps, share)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a flat series has no trend to converge to
            try:
                mean, deviation = fit(values, steps)
            except (ValueError, ArithmeticError):
                return _forecast_constant(values, steps, share)
        if not (isfinite(mean) and isfinite(deviation)):
            return _forecast_constant(values, steps, share)
        return max(0.0, mean + _z_score(share) * deviation)

    return forecast


def _forecast_constant(values: Sequence[float], steps: int, share: float) -> float:
    if not values:
        return 0.0
    return max(
        0.0, values[-1] + _z_score(share) * (pstdev(values[-_MIN_FIT_VALUES:]) if len(values) > 1 else 0.0)
    )


def _z_score(share: float) -> float:
    return NormalDist().inv_cdf(share)


def _forecast_kalman(values: Sequence[float], steps: int) -> tuple[float, float]:
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    fitted = UnobservedComponents(list(values), "local linear trend").fit(disp=0, maxiter=50)
    return _last_step(fitted.get_forecast(steps))


def _forecast_arima(values: Sequence[float], steps: int) -> tuple[float, float]:
    from statsmodels.tsa.arima.model import ARIMA

    return _last_step(ARIMA(list(values), order=(1, 1, 1)).fit().get_forecast(steps))


def _forecast_holt(values: Sequence[float], steps: int) -> tuple[float, float]:
    from statsmodels.tsa.api import Holt

    fitted = Holt(list(values), damped_trend=True, initialization_method="estimated").fit()
    return float(fitted.forecast(steps)[-1]), float(pstdev(map(float, fitted.resid)))


def _last_step(forecast: Any) -> tuple[float, float]:
    return float(forecast.predicted_mean[-1]), float(forecast.se_mean[-1])


_FITS: dict[str, Callable[[Sequence[float], int], tuple[float, float]]] = {
    "kalman": _forecast_kalman,
    "holt": _forecast_holt,
    "arima": _forecast_arima,
}
