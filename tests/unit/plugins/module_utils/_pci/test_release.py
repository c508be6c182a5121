# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Former drivers on record, the check that functions came back, and the bounded way back.

The kernel's side of bind and unbind is played by threads that read what is written into FIFOs of the fake tree.
An unbind without a reader blocks, as NVIDIA's does.
"""

from __future__ import annotations

import os
import threading
import time

import pytest

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.bounded_write import write_bounded
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.holders import find_holders
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.release import (
    Record,
    check_released,
    forget,
    recall,
    remember,
    restore,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._pci.sysfs import read_functions

GPU = "0000:41:00.0"
AUDIO = "0000:41:00.1"


class Kernel:
    """Answers writes to bind and unbind as the kernel does, until the test ends."""

    def __init__(self, tree):
        self.tree = tree
        self.written = []
        self.threads = []
        self.stopped = False

    def serve(self, path, react):
        if os.path.exists(path):
            os.unlink(path)
        os.mkfifo(path)
        thread = threading.Thread(target=self._serve, args=(path, react), daemon=True)
        self.threads.append((thread, path))
        thread.start()

    def _serve(self, path, react):
        while not self.stopped:
            with open(path) as stream:
                text = stream.read()
            if text:
                self.written.append((os.path.relpath(path, self.tree.sysfs), text))
                react(text)

    def serve_driver(self, name):
        folder = self.tree.add_driver(name)
        self.serve(str(folder / "bind"), lambda text: self.tree.set_driver(text.strip(), name))
        self.serve(str(folder / "unbind"), lambda text: self.tree.set_driver(text.strip(), None))

    def stop(self):
        self.stopped = True
        for thread, path in self.threads:
            while thread.is_alive():
                try:
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                except OSError:
                    pass
                thread.join(0.02)


@pytest.fixture
def kernel(tree):
    played = Kernel(tree)
    yield played
    played.stop()


@pytest.fixture
def gpu(tree):
    tree.add_function(GPU, driver="nvidia", group=17)
    tree.write(f"proc/driver/nvidia/gpus/{GPU}/information", "Device Minor: 0\n")
    return tree


def remembered(tree, **more):
    return remember(read_functions(tree.sysfs), tree.run_dir, **more)


def set_override(tree, text, address=GPU):
    (tree.folder(address) / "driver_override").write_text(text + "\n")


def take(tree, address=GPU):
    """What LXD does with a function."""
    set_override(tree, "vfio-pci", address)
    tree.set_driver(address, "vfio-pci")


def check(tree, *addresses):
    return check_released(addresses or (GPU,), tree.run_dir, tree.sysfs, tree.procfs)


def give_back(tree, *addresses, timeout_s=5.0):
    return restore(addresses or (GPU,), Deadline(timeout_s), tree.run_dir, tree.sysfs, tree.procfs)


# Records


def test_remember_and_recall(gpu):
    gpu.add_function(AUDIO, ids="10de:10f8", class_code="0x040300", driver_override="snd_hda_intel")
    expected = [Record(GPU, "10de:2330", "nvidia", None), Record(AUDIO, "10de:10f8", None, "snd_hda_intel")]
    assert remembered(gpu) == expected
    assert [recall(address, gpu.run_dir) for address in (GPU, AUDIO)] == expected
    assert os.stat(os.path.join(gpu.run_dir, f"{GPU}.json")).st_mode & 0o777 == 0o600


def test_a_record_of_a_broken_off_run_stays_until_the_function_is_back(gpu):
    remembered(gpu)
    take(gpu)
    assert remembered(gpu)[0].driver == "nvidia"
    set_override(gpu, "(null)")
    gpu.set_driver(GPU, "nvidia")
    holder = find_holders([GPU], gpu.procfs, gpu.sysfs)
    assert remembered(gpu, holders=holder)[0] == Record(GPU, "10de:2330", "nvidia", None)


def test_a_record_of_another_board_in_the_slot_is_replaced(gpu):
    remembered(gpu)
    (gpu.folder(GPU) / "device").write_text("0x1eb8\n")
    gpu.set_driver(GPU, "nouveau")
    assert remembered(gpu) == [Record(GPU, "10de:1eb8", "nouveau", None)]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": 2, "address": "0000:41:00.0"}', '{"schema": 1, "address": "0000:42:00.0"}']
)
def test_a_file_that_is_no_record_is_none(gpu, text):
    gpu.write(f"run/{GPU}.json", text)
    assert recall(GPU, gpu.run_dir) is None
    assert remembered(gpu)[0].driver == "nvidia"


def test_forget(gpu):
    remembered(gpu)
    forget([GPU, AUDIO], gpu.run_dir)
    assert recall(GPU, gpu.run_dir) is None


# Checking


def released(tree):
    (state,) = check(tree)
    return state.released, state.reason


def test_back_and_idle(gpu):
    remembered(gpu)
    assert released(gpu) == (True, "0000:41:00.0 is back on nvidia and nothing holds it")


def test_still_on_vfio(gpu):
    remembered(gpu)
    take(gpu)
    assert released(gpu) == (False, "0000:41:00.0 is on vfio-pci; it was on nvidia before")


def test_without_a_driver_where_there_was_one(gpu):
    remembered(gpu)
    gpu.set_driver(GPU, None)
    assert released(gpu) == (False, "0000:41:00.0 is on no driver; it was on nvidia before")


def test_leftover_override(gpu):
    remembered(gpu)
    set_override(gpu, "vfio-pci")
    assert released(gpu) == (False, "0000:41:00.0 has driver_override vfio-pci; it was unset before")


def test_held_by_a_process(gpu):
    remembered(gpu)
    gpu.add_process(77, "burn", files=["/dev/nvidia0"], cgroup="0::/lxc.payload.c1")
    (state,) = check(gpu)
    assert state.reason == "0000:41:00.0 is still held: burn (pid 77, container c1) has open /dev/nvidia0"
    assert (state.released, [holder.pid for holder in state.holders]) == (False, [77])


def test_who_held_it_before_is_no_leftover(gpu):
    unit = "0::/system.slice/nvidia-persistenced.service"
    gpu.add_process(70, "nvidia-persiste", files=["/dev/nvidia0"], cgroup=unit)
    remembered(gpu, holders=find_holders([GPU], gpu.procfs, gpu.sysfs))
    gpu.add_process(170, "nvidia-persiste", files=["/dev/nvidia0"], cgroup=unit)
    (state,) = check(gpu)
    assert (state.released, len(state.holders)) == (True, 2)
    gpu.add_process(171, "burn", files=["/dev/nvidia0"])
    assert check(gpu)[0].reason == "0000:41:00.0 is still held: burn (pid 171) has open /dev/nvidia0"


def test_no_driver_before_and_idle_on_vfio_is_told_apart(tree):
    tree.add_function(GPU, group=17)
    remembered(tree)
    take(tree)
    (state,) = check(tree)
    assert (state.released, state.told_apart, state.former_known, state.former_driver) == (True, True, True, None)
    assert "had no driver before" in state.reason
    tree.add_process(77, "qemu-system-x86", files=["/dev/vfio/17"])
    (state,) = check(tree)
    assert (state.released, state.told_apart) == (False, False)


def test_nothing_on_record(gpu):
    assert released(gpu) == (True, "0000:41:00.0 is on nvidia; nothing is on record about it")
    take(gpu)
    assert released(gpu)[0] is False
    assert check(gpu)[0].former_known is False


def test_gone_from_the_bus(tree):
    assert released(tree) == (False, "0000:41:00.0 is gone from the PCI bus; rescan the bus or reboot the host")


def test_amds_shared_node_alone_is_no_leftover(tree):
    tree.add_function(GPU, driver="amdgpu")
    remembered(tree)
    tree.add_process(77, "other-gpus-job", files=["/dev/kfd"])
    assert check(tree)[0].released


# Giving back


def test_restore_from_vfio_to_the_former_driver(gpu, kernel):
    remembered(gpu)
    take(gpu)
    kernel.serve_driver("nvidia")
    kernel.serve_driver("vfio-pci")
    (result,) = give_back(gpu)
    assert result.done, result.reason
    assert result.actions == ("set driver_override to unset", "unbind from vfio-pci", "bind to nvidia")
    assert kernel.written == [("bus/pci/drivers/vfio-pci/unbind", GPU), ("bus/pci/drivers/nvidia/bind", GPU)]
    assert check(gpu)[0].released


def test_restore_to_no_driver_clears_the_override(tree, kernel):
    tree.add_function(GPU, group=17)
    remembered(tree)
    take(tree)
    kernel.serve_driver("vfio-pci")
    (result,) = give_back(tree)
    assert (result.done, result.actions) == (True, ("set driver_override to unset", "unbind from vfio-pci"))
    assert (tree.folder(GPU) / "driver_override").read_text() == "\n"
    assert released(tree) == (True, "0000:41:00.0 is back on no driver and nothing holds it")


def test_restore_only_what_differs(gpu):
    remembered(gpu)
    set_override(gpu, "vfio-pci")
    (result,) = give_back(gpu)
    assert (result.done, result.actions) == (True, ("set driver_override to unset",))
    (again,) = give_back(gpu)
    assert (again.done, again.changed, again.actions) == (True, False, ())


def test_restore_puts_a_former_override_back(tree, kernel):
    tree.add_function(GPU, driver="vfio-pci", driver_override="vfio-pci")
    remembered(tree)
    set_override(tree, "(null)")
    tree.set_driver(GPU, None)
    kernel.serve_driver("vfio-pci")
    (result,) = give_back(tree)
    assert (result.done, result.actions) == (True, ("set driver_override to vfio-pci", "bind to vfio-pci"))


def test_an_unbind_that_blocks_ends_in_time_and_names_what_is_known(gpu):
    remembered(gpu)
    gpu.set_driver(GPU, "nouveau")
    gpu.write("sys/module/nouveau/refcnt", "1\n")
    os.mkfifo(gpu.path / "sys/bus/pci/drivers/nouveau/unbind")
    start = time.monotonic()
    (result,) = give_back(gpu, timeout_s=0.2)
    assert time.monotonic() - start < 10
    assert not result.done
    assert "could not unbind from nouveau" in result.reason
    assert "did not end within" in result.reason
    assert "held by: module nouveau (count 1)" in result.reason


def test_a_held_function_is_not_touched_and_its_holder_is_named(gpu):
    remembered(gpu)
    gpu.set_driver(GPU, "vfio-pci")
    gpu.add_process(77, "qemu-system-x86", files=["/dev/vfio/17"], arguments=["qemu-system-x86_64", "-name", "v1"])
    (result,) = give_back(gpu, timeout_s=0.2)
    assert (result.done, result.actions) == (False, ())
    assert "cannot be taken from vfio-pci while it is held" in result.reason
    assert "qemu-system-x86 (pid 77, VM v1) has open /dev/vfio/17" in result.reason


def test_a_holder_that_goes_is_waited_for(gpu, kernel):
    remembered(gpu)
    gpu.set_driver(GPU, "vfio-pci")
    gpu.add_process(77, "qemu-system-x86", files=["/dev/vfio/17"])
    kernel.serve_driver("vfio-pci")
    kernel.serve_driver("nvidia")

    def sleep(_seconds):
        descriptor = gpu.path / "proc/77/fd/0"
        if descriptor.is_symlink():
            descriptor.unlink()

    (result,) = restore([GPU], Deadline(30), gpu.run_dir, gpu.sysfs, gpu.procfs, sleep=sleep)
    assert result.done, result.reason


def test_a_former_driver_that_is_not_loaded(gpu, kernel):
    remembered(gpu)
    take(gpu)
    kernel.serve_driver("vfio-pci")
    folder = gpu.path / "sys/bus/pci/drivers/nvidia"
    (folder / "module").unlink()
    folder.rmdir()
    (result,) = give_back(gpu)
    assert not result.done
    assert "nvidia is not loaded; load it with: modprobe nvidia" in result.reason
    assert result.changed


def test_a_write_without_effect_is_no_success(gpu):
    remembered(gpu)
    gpu.set_driver(GPU, None)
    (gpu.path / "sys/bus/pci/drivers/nvidia/bind").write_text("")
    (result,) = give_back(gpu, timeout_s=0.2)
    assert (result.done, result.reason) == (False, "0000:41:00.0: is on no driver although the write went well")


def test_each_function_has_its_turn(gpu, kernel):
    gpu.add_function(AUDIO, driver="snd_hda_intel")
    remembered(gpu)
    take(gpu)
    gpu.set_driver(AUDIO, None)
    os.mkfifo(gpu.path / "sys/bus/pci/drivers/vfio-pci/unbind")
    kernel.serve_driver("snd_hda_intel")
    first, second = give_back(gpu, GPU, AUDIO, timeout_s=0.2)
    assert (first.done, second.done) == (False, True), second.reason


def test_nothing_on_record_nothing_done(gpu):
    take(gpu)
    (result,) = give_back(gpu)
    assert (result.done, result.changed) == (False, False)
    assert "nothing is on record" in result.reason


# The write itself


def test_write(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    assert write_bounded(str(path), "hello", 30) is None
    assert path.read_text() == "hello"


@pytest.mark.parametrize(("name", "error"), [("missing", "ENOENT"), (".", "EISDIR")])
def test_write_fails_with_the_kernels_reason(tmp_path, name, error):
    assert error in write_bounded(str(tmp_path / name), "hello", 30)
    assert not (tmp_path / "missing").exists()


def test_a_write_that_blocks_is_left_behind(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert "did not end within 0.2 s" in write_bounded(str(tmp_path / "fifo"), "hello", 0.2)
