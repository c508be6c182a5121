# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CEL over a DRA device, with the variables and functions that the scheduler gives it. Private to the collection.

What Kubernetes adds to the language, and a general CEL library lacks: `device.attributes[domain]` of a domain that the device does
not have is an empty map, `cel.bind`, semantic versions, quantities, `includes`. The first two are rewritten before the expression
is compiled, the others are functions.
"""

from __future__ import annotations

import re
import traceback
from fractions import Fraction
from typing import Any, Callable, Mapping, NamedTuple, Optional, Union

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.quantity import parse_quantity, version_key

CEL_IMPORT_ERROR: Optional[str] = None
try:
    import cel
    from cel.stdlib import add_stdlib_to_context
except ImportError:
    CEL_IMPORT_ERROR = traceback.format_exc()

# Versions and quantities are maps with one such key, because the library takes no types of ours.
_SEMVER, _QUANTITY = "semver!", "quantity!"
_TOKEN = re.compile(
    r"""(?P<string>[rRbB]{0,2}(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))"""
    r"""|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<space>\s+|//[^\n]*)|(?P<other>.)""",
    re.DOTALL,
)
_MAPS = ("attributes", "capacity")
_LIST_VALUES = ("ints", "bools", "strings")
# resource.k8s.io: ResourceSliceMaxAttributeValuesPerDevice
_INCLUDES_LIMIT = 48


class CelError(FleetError):
    """An expression that cannot be compiled, or that fails for a device; words are those of Kubernetes where it has any."""


class Token(NamedTuple):
    kind: str
    text: str


class Selector:
    """A compiled expression. Not for use by several threads at once."""

    def __init__(self, expression: str) -> None:
        if CEL_IMPORT_ERROR is not None:
            raise FleetError(
                "this Python cannot evaluate CEL; install the package common-expression-language for the interpreter that"
                " runs the module",
                exception=CEL_IMPORT_ERROR,
            )
        self.expression = expression
        self._maps: dict[str, dict[str, Any]] = {}
        self._context = cel.Context(functions={**_FUNCTIONS, **self._lookups()})
        add_stdlib_to_context(self._context)
        try:
            self._program = cel.compile(rewrite(expression))
        except (ValueError, RuntimeError) as error:
            raise CelError(f"cannot compile the CEL expression {expression!r}: {_first_line(error)}") from error

    def matches(self, device: Mapping[str, Any], driver: str) -> bool:
        """Whether a device, in the form of resource.k8s.io/v1, satisfies the expression; CelError when that cannot be said."""
        self._maps = {
            "attributes": _by_domain(device.get("attributes") or {}, driver, _attribute),
            "capacity": _by_domain(device.get("capacity") or {}, driver, _capacity),
        }
        self._context.add_variable(
            "device",
            {
                "driver": driver,
                "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
                **self._maps,
            },
        )
        try:
            result = self._program.execute(self._context)
        except KeyError as error:
            raise CelError(f"{self.expression!r}: no such key: {error.args[0]}") from error
        except (RuntimeError, TypeError, ValueError, OverflowError, IndexError, ZeroDivisionError) as error:
            raise CelError(f"{self.expression!r}: {_first_line(error)}") from error
        if not isinstance(result, bool):
            raise CelError(f"{self.expression!r} evaluates to {result!r}, and not to true or false")
        return result

    def _lookups(self) -> dict[str, Callable[..., Any]]:
        def lookup(kind: str) -> Callable[[str], Any]:
            return lambda domain: self._maps[kind].get(domain, {})

        def optional(kind: str) -> Callable[[str, str], Any]:
            def find(domain: str, name: str) -> Any:
                values = self._maps[kind].get(domain, {})
                return cel.OptionalValue.of(values[name]) if name in values else cel.OptionalValue.none()

            return find

        functions: dict[str, Callable[..., Any]] = {f"gpulab_{kind}": lookup(kind) for kind in _MAPS}
        functions.update({f"gpulab_optional_{kind}": optional(kind) for kind in _MAPS})
        return functions


def compile_selector(expression: str) -> Selector:
    """The expression, ready to be asked about devices; CelError when it is not CEL."""
    return Selector(expression)


def rewrite(expression: str) -> str:
    """The expression with what Kubernetes adds to CEL's grammar put in terms that CEL has."""
    return _unbind(_domains(_tokens(expression)))


def _tokens(expression: str) -> list[Token]:
    found = []
    for match in _TOKEN.finditer(expression):
        kind = match.lastgroup or "other"
        if kind != "space":
            found.append(Token(kind, match.group()))
        elif found and found[-1].kind != "space":
            found.append(Token("space", " "))
    return found


def _domains(tokens: list[Token]) -> list[Token]:
    """device.attributes["d"] becomes a call, and so does device.attributes["d"].?name."""
    result: list[Token] = []
    position = 0
    while position < len(tokens):
        window, end = _window(tokens, position, 9)
        texts = [token.text for token in window]
        bound = bool(result) and _last_solid(result) == "."
        if (
            len(window) >= 6
            and not bound
            and texts[0] == "device"
            and texts[1] == "."
            and texts[2] in _MAPS
            and texts[3] == "["
            and window[4].kind == "string"
            and texts[5] == "]"
        ):
            if len(window) == 9 and texts[6] == "." and texts[7] == "?" and window[8].kind == "name":
                result.append(Token("other", f'gpulab_optional_{texts[2]}({texts[4]}, "{texts[8]}")'))
                position = end[8]
            else:
                result.append(Token("other", f"gpulab_{texts[2]}({texts[4]})"))
                position = end[5]
            continue
        result.append(tokens[position])
        position += 1
    return result


def _window(tokens: list[Token], start: int, size: int) -> tuple[list[Token], list[int]]:
    """The next `size` tokens that are no space, and the position after each of them."""
    window: list[Token] = []
    ends: list[int] = []
    for position in range(start, len(tokens)):
        if tokens[position].kind == "space":
            if not window:
                break
            continue
        window.append(tokens[position])
        ends.append(position + 1)
        if len(window) == size:
            break
    return window, ends


def _last_solid(tokens: list[Token]) -> str:
    return next((token.text for token in reversed(tokens) if token.kind != "space"), "")


def _unbind(tokens: list[Token]) -> str:
    """cel.bind(x, value, body) becomes [value].map(x, body)[0]."""
    texts = [token.text for token in tokens]
    for position in range(len(texts) - 3, -1, -1):
        if texts[position : position + 4] != ["cel", ".", "bind", "("]:
            continue
        arguments, end = _arguments(texts, position + 4)
        if len(arguments) != 3:
            raise CelError("cel.bind takes a name, a value and an expression")
        name, value, body = arguments
        texts[position:end] = [f"[{value}].map({name.strip()}, {body})[0]"]
    return "".join(texts)


def _arguments(texts: list[str], start: int) -> tuple[list[str], int]:
    """The arguments of a call whose bracket is open before `start`, and the position after its closing bracket."""
    arguments: list[str] = []
    depth, current = 0, ""
    for position in range(start, len(texts)):
        text = texts[position]
        if text == ")" and depth == 0:
            return [*arguments, current], position + 1
        if text == "," and depth == 0:
            arguments.append(current)
            current = ""
            continue
        depth += (text in "([{") - (text in ")]}") if len(text) == 1 else 0
        current += text
    raise CelError("cel.bind has no closing bracket")


def _by_domain(
    values: Mapping[str, Any], driver: str, convert: Callable[[Mapping[str, Any]], Any]
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        domain, slash, short = name.partition("/")
        if not slash:
            domain, short = driver, name
        found.setdefault(domain, {})[short] = convert(value)
    return found


def _attribute(value: Mapping[str, Any]) -> Any:
    for key in ("string", "int", "bool"):
        if value.get(key) is not None:
            return value[key]
    if value.get("version") is not None:
        return semver(str(value["version"]))
    for key in _LIST_VALUES:
        if value.get(key) is not None:
            return list(value[key])
    if value.get("versions") is not None:
        return [semver(str(version)) for version in value["versions"]]
    raise CelError(f"unsupported attribute value: {dict(value)}")


def _capacity(value: Union[Mapping[str, Any], str, int]) -> dict[str, str]:
    return quantity(str(value["value"] if isinstance(value, Mapping) else value))


def semver(text: str) -> dict[str, str]:
    """CEL's semver(): build metadata does not count."""
    version_key(text)
    return {_SEMVER: text.partition("+")[0]}


def quantity(text: str) -> dict[str, str]:
    """CEL's quantity()."""
    return {_QUANTITY: str(parse_quantity(text))}


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        if _SEMVER in value:
            return version_key(value[_SEMVER])
        if _QUANTITY in value:
            return Fraction(value[_QUANTITY])
    raise TypeError(f"no such overload: {value!r} is neither a version nor a quantity")


def _compare(one: Any, other: Any) -> int:
    first, second = _ordered(one), _ordered(other)
    if isinstance(first, tuple) != isinstance(second, tuple):
        raise TypeError("no such overload: a version cannot be compared with a quantity")
    return int(first > second) - int(first < second)


def _plus(sign: int) -> Callable[[Any, Any], dict[str, str]]:
    def add(one: Any, other: Any) -> dict[str, str]:
        number = other if isinstance(other, int) and not isinstance(other, bool) else _ordered(other)
        return {_QUANTITY: str(_ordered(one) + sign * number)}

    return add


def _is(parse: Callable[[str], Any]) -> Callable[[Any], bool]:
    def check(text: Any) -> bool:
        try:
            parse(str(text))
        except ValueError:
            return False
        return True

    return check


def _includes(values: Any, wanted: Any) -> bool:
    if isinstance(values, (list, tuple)):
        return any(_same(value, wanted) for value in values[:_INCLUDES_LIMIT])
    return _same(values, wanted)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match.group() if match else ""


def _as_integer(value: Any) -> int:
    number = _ordered(value)
    if number.denominator != 1:
        raise ValueError("cannot convert value to integer")
    return int(number)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "semver": semver,
    "isSemver": _is(version_key),
    "major": lambda value: _ordered(value)[0],
    "minor": lambda value: _ordered(value)[1],
    "patch": lambda value: _ordered(value)[2],
    "quantity": quantity,
    "isQuantity": _is(parse_quantity),
    "isInteger": lambda value: _ordered(value).denominator == 1,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: float(_ordered(value)),
    "sign": lambda value: int(_ordered(value) > 0) - int(_ordered(value) < 0),
    "add": _plus(1),
    "sub": _plus(-1),
    "compareTo": _compare,
    "isGreaterThan": lambda one, other: _compare(one, other) > 0,
    "isLessThan": lambda one, other: _compare(one, other) < 0,
    "includes": _includes,
    "find": _find,
}


def _first_line(error: Exception) -> str:
    """The library's words without its drawing of the expression and its advice."""
    text = str(error).partition("\n")[0]
    text = re.sub(r"^Failed to parse expression '.*': ERROR: ", "", text, flags=re.DOTALL)
    return text.partition(". Check ")[0].strip()
