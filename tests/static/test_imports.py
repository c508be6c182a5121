# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The design's arrows: which room of module_utils may import which. A wrong import fails, and the test proves that it would."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
PREFIX = "ansible_collections.gpulab.fleet.plugins."

# Everybody may import _common, which imports nobody. _machine knows nobody else; hardware rooms know _machine only;
# rooms that talk to LXD or Kubernetes know no hardware. Modules and plugins put them together.
ARROWS: dict[str, set[str]] = {
    "_common": set(),
    "_machine": {"_common"},
    "_catalog": {"_common", "_machine"},
    "_slices": {"_common", "_machine"},
    "_pci": {"_common", "_machine"},
    "_virtual": {"_common", "_machine"},
    "_lxd": {"_common"},
    "_kubernetes": {"_common"},
    # A user's own cluster takes the place of a control plane of ours, so this room asks it by the same client.
    "_control_plane": {"_common", "_kubernetes"},
    "_kubelet": {"_common"},
    # Claims are judged by the CEL, the quantities and the versions of devices.
    "_checks": {"_common", "_kubernetes"},
    # Scenarios: objects in a cluster, what has to become of them, and the slices of it in one version.
    "_validation": {"_common", "_kubernetes", "_checks", "_slices"},
}

# Inside a room: what a board is knows nothing of the transport, and the transport knows no board.
WITHIN: dict[str, set[str]] = {
    "_virtual/device_model": {"vfio_user", "channel", "session", "serve"},
    "_virtual/config_space": {"vfio_user", "channel", "session", "serve"},
    "_virtual/capabilities": {"vfio_user", "channel", "session", "serve"},
    "_virtual/behaviour": {"vfio_user", "channel", "session", "serve"},
    "_virtual/vfio_user": {"device_model", "config_space", "capabilities", "behaviour"},
}


def imported(source: str, module: str) -> set[str]:
    """The dotted names of the collection that a source imports, anywhere in it; `module` is its own dotted name."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*module.split(".")[: -node.level], *([base] if base else [])])
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return {name for name in names if name.startswith("ansible_collections.")}


def wrong_arrows(source: str, path: str) -> list[str]:
    """What one file under plugins/ imports against the design; `path` is relative to plugins/, as modules/lxd_gpu_vm.py."""
    parts = path[: -len(".py")].split("/")
    module = PREFIX + ".".join(parts)
    faults = []
    for name in sorted(imported(source, module)):
        if not name.startswith(PREFIX):
            faults.append(f"{path} imports {name}: no other collection is needed")
            continue
        where = name[len(PREFIX) :].split(".")
        if parts[0] != "module_utils":
            if where[0] not in {"module_utils", "plugin_utils", "doc_fragments"}:
                faults.append(f"{path} imports {name}: plugins share code through module_utils")
            continue
        if where[0] != "module_utils" or len(where) < 2:
            faults.append(f"{path} imports {name}: module_utils import module_utils only")
            continue
        room, target = parts[1], where[1]
        if room not in ARROWS:
            faults.append(f"{path}: the room {room} is not in the design's table")
        elif target != room and target not in ARROWS[room]:
            faults.append(f"{path} imports {target}: {room} may import {sorted(ARROWS[room]) or 'nobody'}")
        forbidden = WITHIN.get("/".join(parts[1:3]), set())
        if target == room and len(where) > 2 and where[2] in forbidden:
            faults.append(f"{path} imports {where[2]}: the device model and the transport do not know each other")
    return faults


def test_every_import_follows_the_design():
    faults = []
    for path in sorted(PLUGINS.rglob("*.py")):
        faults += wrong_arrows(path.read_text(encoding="utf-8"), path.relative_to(PLUGINS).as_posix())
    assert not faults, "\n".join(faults)


def test_every_room_is_in_the_table():
    rooms = {path.name for path in (PLUGINS / "module_utils").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms <= set(ARROWS), f"rooms without arrows: {sorted(rooms - set(ARROWS))}"
    assert not [path.name for path in (PLUGINS / "module_utils").glob("*.py") if path.name != "__init__.py"], (
        "each file belongs into a room"
    )


U = PREFIX + "module_utils."


@pytest.mark.parametrize(
    ("path", "source", "faults"),
    [
        ("module_utils/_machine/load.py", f"from {U}_catalog.boards import BOARDS", 1),
        ("module_utils/_machine/load.py", f"from {U[:-1]} import _catalog", 1),
        ("module_utils/_machine/load.py", f"import {U}_lxd.client", 1),
        ("module_utils/_machine/load.py", f"def late():\n    from {U}_pci.hole import plan_hole", 1),
        ("module_utils/_machine/load.py", "from .._catalog import boards", 1),
        ("module_utils/_machine/load.py", "from . import model", 0),
        ("module_utils/_machine/load.py", f"from {U}_common.errors import FleetError", 0),
        ("module_utils/_lxd/plan.py", f"from {U}_machine.model import Machine", 1),
        ("module_utils/_lxd/plan.py", f"from {PREFIX}modules.lxd_gpu_vm import main", 1),
        ("module_utils/_common/files.py", f"from {U}_machine.model import Machine", 1),
        ("module_utils/_new/thing.py", f"from {U}_machine.model import Machine", 1),
        ("module_utils/_virtual/device_model.py", f"from {U}_virtual.vfio_user import Message", 1),
        ("module_utils/_virtual/vfio_user.py", f"from {U}_virtual.device_model import DeviceModel", 1),
        ("module_utils/_virtual/serve.py", f"from {U}_virtual.device_model import DeviceModel", 0),
        ("modules/lxd_gpu_vm.py", f"from {U}_lxd.client import connect\nfrom {U}_pci.hole import plan_hole", 0),
        ("modules/lxd_gpu_vm.py", f"from {PREFIX}modules.gpu_host_info import main", 1),
        ("modules/lxd_gpu_vm.py", "from ansible_collections.community.general.plugins.module_utils import lxd", 1),
        ("modules/lxd_gpu_vm.py", "import json\nfrom ansible.module_utils.basic import AnsibleModule", 0),
    ],
)
def test_a_wrong_arrow_is_found(path, source, faults):
    assert len(wrong_arrows(source, path)) == faults
