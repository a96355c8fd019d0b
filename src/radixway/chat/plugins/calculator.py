"""Arithmetic expressions, evaluated without anything else of Python."""

import ast
import math
import operator
from collections.abc import Callable

Number = int | float

MAX_CHARACTERS = 500
_MAX_BITS = 4096
_MAX_DEPTH = 50


class CalculationError(Exception):
    """The expression is no arithmetic, or too large; the text says why."""


def calculate(expression: str) -> str:
    """Return the value of an `expression` such as `2 * (3 + 4) ** 2`, `sqrt(2)`, `17 % 5`, `comb(52, 5)`.

    `^` is a power; `×`, `÷` and `−` are read, too. Whole numbers are exact, others have 15 digits. Takes
    microseconds, whatever it is given. Raises CalculationError.
    """
    if len(expression) > MAX_CHARACTERS:
        raise CalculationError(f"an expression has at most {MAX_CHARACTERS} characters")
    text = expression.strip().replace("^", "**").replace("×", "*").replace("÷", "/").replace("−", "-")
    try:
        value = _value(ast.parse(text, mode="eval").body, _MAX_DEPTH)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CalculationError("this is not arithmetic") from None
    except ZeroDivisionError:
        raise CalculationError("division by zero") from None
    except (OverflowError, TypeError) as error:
        raise CalculationError(str(error)) from None
    return str(value) if isinstance(value, int) else f"{value:.15g}"


def _value(node: ast.expr, depth: int) -> Number:
    if depth == 0:
        raise CalculationError("too many parentheses")
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _small(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, depth - 1)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, depth - 1)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            return _small(_SIGNS[type(sign)](_value(left, depth - 1), _value(right, depth - 1)))
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if name in _FUNCTIONS:
            return _small(_FUNCTIONS[name](*(_value(argument, depth - 1) for argument in given)))
    raise CalculationError(f"only numbers, + - * / // % ** and {', '.join(sorted(_FUNCTIONS))}")


def _small(value: Number) -> Number:
    if isinstance(value, complex):
        raise CalculationError("no real number")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise CalculationError("the number is too large")
    if isinstance(value, float) and not math.isfinite(value):
        raise CalculationError("no finite number")
    return value


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and abs(exponent) * base.bit_length() > _MAX_BITS:
        raise CalculationError("the number is too large")
    power: Number = base**exponent
    return power


def _bounded(function: Callable[..., Number], limit: int) -> Callable[..., Number]:

    def bounded(*given: Number) -> Number:
        if any(not isinstance(number, int) or abs(number) > limit for number in given):
            raise CalculationError(f"only for whole numbers up to {limit}")
        return function(*given)

    return bounded


def _round(value: Number, digits: Number = 0) -> Number:
    if not isinstance(digits, int) or abs(digits) > 300:
        raise CalculationError("digits to round to are a whole number up to 300")
    return round(value, digits) if digits else round(value)


_SIGNS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "abs": abs,
    "min": min,
    "max": max,
    "round": _round,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "radians": math.radians,
    "degrees": math.degrees,
    "gcd": math.gcd,
    "lcm": _bounded(math.lcm, 10**9),
    "factorial": _bounded(math.factorial, 400),
    "comb": _bounded(math.comb, 1000),
}
