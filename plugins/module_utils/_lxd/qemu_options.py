# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option qemu_opts and LXD's key raw.qemu as lists of tokens, read the way LXD reads them. Private to the collection."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Optional, Sequence, Union

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

AUTO = "auto"
# What QEMU takes after -global: driver.property=value, or driver=…,property=…,value=… (qemu_global_opts).
_GLOBAL = re.compile(r"^(?:[^=.,\s]+\.[^=,\s]+=.*|driver=[^,]+,.*property=.+)$", re.DOTALL)


@dataclass(frozen=True)
class QemuOptions:
    """What the user asked for: tokens of their own, and whether the PCI hole is to be sized for them."""

    tokens: tuple[str, ...] = ()
    auto: bool = False


def parse_qemu_options(value: Union[str, Sequence[object], None], option: str = "qemu_opts") -> Optional[QemuOptions]:
    """None stays None (leave raw.qemu alone); an empty string or list stands for no options at all."""
    if value is None:
        return None
    if isinstance(value, str):
        tokens = list(_split(value, option))
        auto = tokens[:1] == [AUTO]
        tokens = tokens[1:] if auto else tokens
    else:
        tokens, auto = [], False
        for index, element in enumerate(value):
            if not isinstance(element, str):
                raise FleetError(
                    f"{option}[{index}] is {element!r}; every element must be a string", option=option, value=element
                )
            if element.strip() == AUTO:
                auto = True
            else:
                tokens.extend(_split(element, f"{option}[{index}]"))
    _validate(tokens, option)
    return QemuOptions(tuple(tokens), auto)


def split_raw_qemu(value: str) -> tuple[str, ...]:
    """The tokens of an existing raw.qemu. What no shell would split (an open quote) is one token, so it differs from any plan."""
    try:
        return tuple(shlex.split(value))
    except ValueError:
        return (value,)


def join_raw_qemu(tokens: Sequence[str]) -> Optional[str]:
    """The value for raw.qemu, which LXD splits again like a shell; None when there is nothing to set."""
    return " ".join(shlex.quote(token) for token in tokens) or None


def _split(text: str, option: str) -> tuple[str, ...]:
    try:
        tokens = shlex.split(text)
        # As people copy it from a launcher's configuration: the whole value in quotes, often with a leading blank in them.
        while len(tokens) == 1 and tokens[0] != text and tokens[0].split() != tokens:
            text, tokens = tokens[0], shlex.split(tokens[0])
    except ValueError as error:
        raise FleetError(
            f"{option} is {text!r}, which cannot be split into QEMU options: {error}; close the quotes",
            option=option,
            value=text,
        ) from error
    return tuple(tokens)


def _validate(tokens: Sequence[str], option: str) -> None:
    if tokens and not tokens[0].startswith("-"):
        raise FleetError(
            f"{option} starts with {tokens[0]!r}; QEMU options start with a dash, as in -global q35-pcihost.pci-hole64-size=1024G",
            option=option,
            value=tokens[0],
        )
    for index, token in enumerate(tokens):
        if token not in ("-global", "--global"):
            continue
        argument = tokens[index + 1] if index + 1 < len(tokens) else None
        if argument is None or not _GLOBAL.match(argument):
            raise FleetError(
                f"{option} has -global {'' if argument is None else repr(argument)}".rstrip()
                + ", which QEMU refuses; write it as driver.property=value, as in -global q35-pcihost.pci-hole64-size=1024G",
                option=option,
                value=argument,
            )
