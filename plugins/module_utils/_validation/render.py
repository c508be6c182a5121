# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fills in the templates of a scenario. Private to the collection."""

from __future__ import annotations

import re
import traceback
from typing import Any, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

JINJA_IMPORT_ERROR: Optional[str] = None
try:
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import SandboxedEnvironment
except ImportError:
    JINJA_IMPORT_ERROR = traceback.format_exc()

_EXPRESSION = re.compile(r"\s*\{\{(?P<inside>(?:(?!\{\{|\}\}).)*)\}\}\s*", re.DOTALL)


class Renderer:
    """Templates of one scenario. They come from a file, so they run in Jinja's sandbox."""

    def __init__(self) -> None:
        if JINJA_IMPORT_ERROR is not None:
            raise FleetError(
                "this Python cannot fill in templates; install the package Jinja2 for the interpreter that runs the module",
                exception=JINJA_IMPORT_ERROR,
            )
        self._environment = SandboxedEnvironment(
            undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
        )

    def text(self, template: str, variables: Mapping[str, Any], where: str) -> str:
        try:
            return str(self._environment.from_string(template).render(variables))
        except (TemplateError, TypeError, ValueError, ZeroDivisionError) as error:
            raise FleetError(f"{where}: the template cannot be filled in: {error}") from error

    def data(self, value: Any, variables: Mapping[str, Any], where: str) -> Any:
        """Templates anywhere in data. A text that is one expression becomes what the expression is, as a number or a list."""
        if isinstance(value, Mapping):
            return {key: self.data(item, variables, f"{where}.{key}") for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.data(item, variables, f"{where}[{number}]") for number, item in enumerate(value)]
        if not isinstance(value, str) or "{" not in value:
            return value
        whole = _EXPRESSION.fullmatch(value)
        if whole is None:
            return self.text(value, variables, where)
        try:
            compiled = self._environment.compile_expression(whole.group("inside"), undefined_to_none=False)
            result = compiled(**variables)
            if isinstance(result, StrictUndefined):
                # Asking for it makes it say what is missing.
                str(result)
        except (TemplateError, TypeError, ValueError, ZeroDivisionError) as error:
            raise FleetError(f"{where}: the template cannot be filled in: {error}") from error
        return result
