# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError
from ansible_collections.gpulab.fleet.plugins.module_utils._lxd import options


def test_option_names_follow_extensions(fake):
    old, new, newest = (set(names).__contains__ for names in (fake.LXD_5_0, fake.LXD_6_7, fake.LXD_6_9_PLUS))
    assert options.secure_boot(False, old) == {"security.secureboot": "false"}
    assert options.secure_boot(True, old) == {"security.secureboot": "true"}
    assert options.secure_boot(False, new) == {"boot.mode": "uefi-nosecureboot"}
    assert options.secure_boot(True, newest) == {"boot.mode": "uefi-secureboot"}
    assert options.nvidia_runtime(old) == {"nvidia.runtime": "true", "nvidia.driver.capabilities": "all"}
    assert options.nvidia_runtime(new) == options.nvidia_runtime(old)
    assert options.nvidia_runtime(newest) == {}
    assert (options.uses_cdi(new), options.uses_cdi(newest)) == (False, True)


def test_an_lxd_without_any_way_to_nvidia_is_told():
    with pytest.raises(FleetError, match=r"nvidia\.runtime"):
        options.nvidia_runtime(lambda name: False)


def test_cloud_init_keys():
    documents = {"user_data": "#cloud-config", "network_config": None}
    assert options.cloud_init(documents, lambda name: True) == {
        "cloud-init.user-data": "#cloud-config",
        "cloud-init.network-config": None,
    }
    assert options.cloud_init({"user_data": "x"}, lambda name: False) == {"user.user-data": "x"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None, None), {}),
        ((8192, "4", True), {"limits.memory": "8192MiB", "limits.cpu": "4", "limits.memory.hugepages": "true"}),
        ((None, "0-3", False), {"limits.cpu": "0-3", "limits.memory.hugepages": "false"}),
    ],
)
def test_limits_are_mib_and_unset_stays_unset(given, expected):
    assert options.limits(*given) == expected
