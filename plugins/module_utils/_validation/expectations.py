# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is expected of claims and pods, as data that a person writes. Private to the collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence

from ansible_collections.gpulab.fleet.plugins.module_utils._checks.pending_cause import CAUSES
from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

ALLOCATED, UNALLOCATED, ANY = "allocated", "unallocated", "any"
STATES = (ALLOCATED, UNALLOCATED, ANY)
PHASES = ("Pending", "Running", "Succeeded", "Failed")


@dataclass(frozen=True)
class PodExpectation:
    """Of the pods whose name a pattern fits. `pending` is a cause by which they have to wait; then nothing else holds of them."""

    name: str
    number: Optional[int] = None
    phase: str = "Running"
    node: str = ""
    pending: str = ""
    says: str = ""
    claims: str = ALLOCATED


@dataclass(frozen=True)
class ClaimExpectation:
    """Of the claims whose name a pattern fits; claims of templates also go by `POD:NAME`."""

    name: str
    number: Optional[int] = None
    state: str = ALLOCATED
    devices: Optional[int] = None
    # Request -> the alternative of it that was taken.
    chosen: Mapping[str, str] = field(default_factory=dict)
    # CEL expressions that every device satisfies, beyond what the claim asks for.
    where: tuple[str, ...] = ()
    # Attributes that all devices share, or that each has to itself.
    same: tuple[str, ...] = ()
    distinct: tuple[str, ...] = ()
    reserved_for: Optional[tuple[str, ...]] = None
    node: str = ""


@dataclass(frozen=True)
class Expectations:
    """Everything that a look has to confirm; what is not mentioned has to run and to be allocated."""

    pods: tuple[PodExpectation, ...] = ()
    claims: tuple[ClaimExpectation, ...] = ()
    # Nodes of which no device is allocated to anybody.
    free: tuple[str, ...] = ()

    @property
    def of_absence(self) -> bool:
        """Whether something is expected not to happen, which is true at first in any case."""
        return bool(
            self.free
            or any(one.pending or one.number == 0 or one.claims == UNALLOCATED for one in self.pods)
            or any(one.state == UNALLOCATED or one.number == 0 for one in self.claims)
        )


def parse_expectations(raw: object, where: str = "expect") -> Expectations:
    """The expectations of a dictionary; a word that is not known is an error that names those that are."""
    data = _mapping(raw if raw is not None else {}, where, ("pods", "claims", "free"))
    return Expectations(
        pods=tuple(_pod(one, f"{where}.pods[{n}]") for n, one in enumerate(_list(data.get("pods"), f"{where}.pods"))),
        claims=tuple(
            _claim(one, f"{where}.claims[{n}]") for n, one in enumerate(_list(data.get("claims"), f"{where}.claims"))
        ),
        free=_texts(data.get("free"), f"{where}.free"),
    )


def _pod(raw: object, where: str) -> PodExpectation:
    data = _mapping(raw, where, ("name", "count", "phase", "node", "pending", "says", "claims"))
    pending = str(data.get("pending") or "")
    if pending:
        _one_of(pending, CAUSES, f"{where}.pending")
    phase = str(data.get("phase") or ("Pending" if pending else "Running"))
    return PodExpectation(
        name=_text(data.get("name"), f"{where}.name"),
        number=_number(data.get("count"), f"{where}.count"),
        phase=_one_of(phase, PHASES, f"{where}.phase"),
        node=str(data.get("node") or ""),
        pending=pending,
        says=str(data.get("says") or ""),
        claims=_one_of(str(data.get("claims") or (ANY if pending else ALLOCATED)), STATES, f"{where}.claims"),
    )


def _claim(raw: object, where: str) -> ClaimExpectation:
    keys = ("name", "count", "state", "devices", "chosen", "where", "same", "distinct", "reserved_for", "node")
    data = _mapping(raw, where, keys)
    chosen = data.get("chosen") or {}
    if not isinstance(chosen, Mapping):
        raise FleetError(f"{where}.chosen is {chosen!r}; give a dictionary of requests and their alternatives")
    reserved = data.get("reserved_for")
    return ClaimExpectation(
        name=_text(data.get("name"), f"{where}.name"),
        number=_number(data.get("count"), f"{where}.count"),
        state=_one_of(str(data.get("state") or ALLOCATED), STATES, f"{where}.state"),
        devices=_number(data.get("devices"), f"{where}.devices"),
        chosen={str(request): str(alternative) for request, alternative in chosen.items()},
        where=_texts(data.get("where"), f"{where}.where"),
        same=_texts(data.get("same"), f"{where}.same"),
        distinct=_texts(data.get("distinct"), f"{where}.distinct"),
        reserved_for=None if reserved is None else _texts(reserved, f"{where}.reserved_for"),
        node=str(data.get("node") or ""),
    )


def _mapping(raw: object, where: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise FleetError(f"{where} is {raw!r}; give a dictionary with {', '.join(known)}")
    unknown = sorted(set(map(str, raw)) - set(known))
    if unknown:
        raise FleetError(f"{where} has {unknown[0]!r}; known are {', '.join(known)}")
    return raw


def _list(raw: object, where: str) -> Sequence[Any]:
    if raw is None:
        return ()
    if not isinstance(raw, (list, tuple)):
        raise FleetError(f"{where} is {raw!r}; give a list")
    return raw


def _texts(raw: object, where: str) -> tuple[str, ...]:
    if isinstance(raw, str):
        return (raw,)
    return tuple(_text(one, f"{where}[{number}]") for number, one in enumerate(_list(raw, where)))


def _text(raw: object, where: str) -> str:
    if not isinstance(raw, str) or not raw:
        raise FleetError(f"{where} is {raw!r}; give a text that is not empty")
    return raw


def _number(raw: object, where: str) -> Optional[int]:
    if raw is None:
        return None
    if isinstance(raw, str) and raw.isdigit():
        return int(raw)
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 0:
        raise FleetError(f"{where} is {raw!r}; give a number that is not negative")
    return raw


def _one_of(value: str, allowed: Sequence[str], where: str) -> str:
    if value not in allowed:
        raise FleetError(f"{where} is {value!r}; give one of {', '.join(allowed)}")
    return value
