# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a claim asks for, and whether a device is that: the class's selectors and the request's, evaluated here. Private to the collection."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.dra_view import Device, Object, View
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.device_cel import (
    CelError,
    Selector,
    compile_selector,
)

ALL, EXACT = "All", "ExactCount"
MATCH, DISTINCT = "matchAttribute", "distinctAttribute"
# The words of the library for what Kubernetes has and it has not; everything else that goes wrong would go wrong there too.
_LACKING = ("Undefined variable or function", "cannot compile the CEL expression", "No such overload: ")


class Request(NamedTuple):
    """One way to satisfy a request: what `exactly` says, or one entry of `firstAvailable`."""

    # As results name it: `gpu`, or `gpu/large`.
    name: str
    parent: str
    device_class: str
    selectors: tuple[str, ...]
    mode: str
    number: int
    admin: bool
    tolerations: tuple[Object, ...]


class Verdict(NamedTuple):
    """Whether a device is what a request asks for. `unknown` tells why we cannot say, `error` why the scheduler cannot either."""

    matches: bool
    unknown: str = ""
    error: str = ""
    because: str = ""


class Constraint(NamedTuple):
    """A statement about all devices of some requests."""

    kind: str
    attribute: str
    # Empty: of all requests.
    requests: tuple[str, ...]

    def covers(self, request: Request) -> bool:
        return not self.requests or request.name in self.requests or request.parent in self.requests

    @property
    def words(self) -> str:
        return f"{self.kind} {self.attribute} of {', '.join(self.requests) or 'all requests'}"


def requests_of(claim: Object) -> list[list[Request]]:
    """The requests of a claim, each as its alternatives in order of preference; in the form of any version of the API."""
    found = []
    for request in (claim["spec"].get("devices") or {}).get("requests") or ():
        name = str(request["name"])
        if request.get("firstAvailable"):
            found.append([_request(f"{name}/{one['name']}", name, one) for one in request["firstAvailable"]])
        else:
            # Until v1beta1 the fields of `exactly` were those of the request.
            found.append([_request(name, name, request.get("exactly") or request)])
    return found


def _request(name: str, parent: str, body: Object) -> Request:
    mode = str(body.get("allocationMode") or EXACT)
    return Request(
        name=name,
        parent=parent,
        device_class=str(body.get("deviceClassName") or ""),
        selectors=selectors_of(body),
        mode=mode,
        number=int(body.get("count") or 1) if mode == EXACT else 0,
        admin=bool(body.get("adminAccess")),
        tolerations=tuple(body.get("tolerations") or ()),
    )


def selectors_of(body: Object) -> tuple[str, ...]:
    """The CEL expressions of a request, or of the spec of a DeviceClass."""
    return tuple(str(one["cel"]["expression"]) for one in body.get("selectors") or () if one.get("cel"))


def constraints_of(claim: Object) -> list[Constraint]:
    found = []
    for entry in (claim["spec"].get("devices") or {}).get("constraints") or ():
        for kind in (MATCH, DISTINCT):
            if entry.get(kind):
                found.append(Constraint(kind, str(entry[kind]), tuple(map(str, entry.get("requests") or ()))))
    return found


class Selectors:
    """Evaluates expressions, each compiled once. Not for use by several threads at once."""

    def __init__(self) -> None:
        self._compiled: dict[str, Selector | CelError] = {}

    def verdict(self, expressions: Iterable[str], device: Device) -> Verdict:
        """All of the expressions on one device, in their order, as the scheduler does it."""
        for expression in expressions:
            if expression not in self._compiled:
                try:
                    self._compiled[expression] = compile_selector(expression)
                except CelError as error:
                    self._compiled[expression] = error
            selector = self._compiled[expression]
            if isinstance(selector, CelError):
                return _failure(selector)
            try:
                if not selector.matches(device.body, device.key[0]):
                    return Verdict(False, because=expression)
            except CelError as error:
                return _failure(error)
        return Verdict(True)

    def judge(self, view: View, request: Request, device: Device) -> Verdict:
        """A device against the class of a request, then against the request itself."""
        device_class = view.device_class(request.device_class)
        if device_class is None:
            return Verdict(False, error=f"there is no DeviceClass {request.device_class!r}")
        return self.verdict((*selectors_of(device_class["spec"]), *request.selectors), device)


def _failure(error: CelError) -> Verdict:
    if any(words in error.message for words in _LACKING):
        return Verdict(False, unknown=f"this CEL library cannot evaluate what the API server accepted: {error.message}")
    return Verdict(False, error=f"CEL runtime error: {error.message}")


def attribute_values(device: Device, name: str) -> Optional[tuple[Any, ...]]:
    """The values of an attribute by its qualified name, one unless it is a list; None when the device lacks it.

    An attribute that is published without a domain is in that of its driver.
    """
    attributes: Mapping[str, Any] = device.body.get("attributes") or {}
    domain, _slash, short = name.rpartition("/")
    value = attributes.get(name)
    if value is None and domain == device.key[0]:
        value = attributes.get(short)
    if not value:
        return None
    kind, found = next(iter(value.items()))
    # A text and a version of the same letters are different values.
    kind = kind.rstrip("s")
    return tuple((kind, one) for one in (found if isinstance(found, (list, tuple)) else (found,)))


def broken(constraint: Constraint, devices: Iterable[Device]) -> str:
    """Why devices do not satisfy a constraint; empty when they do."""
    seen: list[tuple[Device, tuple[Any, ...]]] = []
    for device in devices:
        values = attribute_values(device, constraint.attribute)
        if values is None:
            return f"{device.words} lacks the attribute {constraint.attribute}"
        seen.append((device, values))
    if constraint.kind == MATCH:
        common: Optional[set[Any]] = None
        for _device, values in seen:
            common = set(values) if common is None else common & set(values)
        if common is not None and not common:
            return f"{constraint.attribute} differs: {_told(seen)}"
        return ""
    # Lists are distinct when they have nothing in common, pair by pair.
    every = [value for _device, values in seen for value in set(values)]
    if len(set(every)) != len(every):
        return f"{constraint.attribute} is not distinct: {_told(seen)}"
    return ""


def _told(seen: list[tuple[Device, tuple[Any, ...]]]) -> str:
    return ", ".join(
        f"{device.key[2]} has {'/'.join(str(value) for _kind, value in values)}" for device, values in seen
    )


def tolerated(device: Device, request: Request) -> str:
    """The first taint that keeps a request from a device; empty when there is none."""
    for taint in device.body.get("taints") or ():
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not any(
            _tolerates(toleration, taint) for toleration in request.tolerations
        ):
            return f"{taint.get('key')}={taint.get('value', '')}:{taint['effect']}"
    return ""


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    return toleration.get("key") == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")
