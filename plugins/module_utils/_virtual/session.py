# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each vfio-user command does to a device, for one client: payloads in, payloads out; private to the collection.

Knows neither sockets nor boards. DMA maps are checked and forgotten: the devices do no DMA, and a guest with an
emulated IOMMU may hold more maps than it would be wise to remember.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping

from ansible_collections.gpulab.fleet.plugins.module_utils._virtual import vfio_user as protocol
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.channel import Message, close_fds
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.device_model import (
    NUM_IRQS,
    NUM_REGIONS,
    RESET_DEVICE,
    AccessError,
    Device,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.interrupts import Interrupts
from ansible_collections.gpulab.fleet.plugins.module_utils._virtual.vfio_user import ClientCapabilities, Refusal, unpack


class Session:
    """A client's dealings with a device; closing it lets go of everything that the client handed over."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._client = ClientCapabilities()
        self.negotiated = False
        self.interrupts = Interrupts()
        self.reply_delay_s = 0.0
        self._handlers: Mapping[int, Callable[[Message], bytes]] = {
            protocol.VERSION: self._version,
            protocol.DMA_MAP: self._dma_map,
            protocol.DMA_UNMAP: self._dma_unmap,
            protocol.DEVICE_GET_INFO: self._device_info,
            protocol.DEVICE_GET_REGION_INFO: self._region_info,
            protocol.DEVICE_GET_REGION_IO_FDS: self._region_io_fds,
            protocol.DEVICE_GET_IRQ_INFO: self._irq_info,
            protocol.DEVICE_SET_IRQS: self._set_irqs,
            protocol.REGION_READ: self._region_read,
            protocol.REGION_WRITE: self._region_write,
            protocol.DEVICE_RESET: self._reset,
            protocol.REGION_WRITE_MULTI: self._region_write_multi,
        }

    def handle(self, message: Message) -> bytes:
        """The payload of the answer; a Refusal when the answer is an error.

        Whatever file descriptors a handler leaves in the message are closed. ``reply_delay_s`` says how long this
        answer is to be held back.
        """
        self.reply_delay_s = 0.0
        try:
            return self._handle(message)
        except AccessError as error:
            raise Refusal(errno.EINVAL, str(error)) from error
        finally:
            close_fds(message.fds)

    def close(self) -> None:
        """Let go of the interrupts' file descriptors."""
        self.interrupts.release_all()

    def _handle(self, message: Message) -> bytes:
        header = message.header
        if not header.is_command:
            raise Refusal(errno.EINVAL, f"flags {header.flags:#x} are not those of a command")
        if not self.negotiated and header.command != protocol.VERSION:
            raise Refusal(errno.EINVAL, f"{header.command_name} came before the version", fatal=True)
        handler = self._handlers.get(header.command)
        if handler is None:
            raise Refusal(errno.ENOTSUP, f"{header.command_name} is not supported")
        return handler(message)

    def _version(self, message: Message) -> bytes:
        if self.negotiated:
            raise Refusal(errno.EINVAL, "the version is settled already")
        self._client = protocol.parse_version(message.payload)
        self.negotiated = True
        return protocol.pack_version(self._client)

    def _dma_map(self, message: Message) -> bytes:
        argsz, flags, _offset, address, size = unpack(protocol.DMA_MAP_BODY, message.payload, "a DMA map")
        if argsz < protocol.DMA_MAP_BODY.size or flags & ~protocol.DMA_MAP_FLAGS:
            raise Refusal(errno.EINVAL, f"a DMA map with argsz {argsz} and flags {flags:#x}")
        _check_range(address, size)
        return b""

    def _dma_unmap(self, message: Message) -> bytes:
        argsz, flags, address, size = unpack(protocol.DMA_UNMAP_BODY, message.payload, "a DMA unmap")
        if flags & protocol.DMA_UNMAP_GET_DIRTY_BITMAP:
            raise Refusal(errno.ENOTSUP, "dirty page bitmaps are not supported")
        if argsz < protocol.DMA_UNMAP_BODY.size or flags & ~protocol.DMA_UNMAP_ALL:
            raise Refusal(errno.EINVAL, f"a DMA unmap with argsz {argsz} and flags {flags:#x}")
        if not flags:
            _check_range(address, size)
        return message.payload[: protocol.DMA_UNMAP_BODY.size]

    def _device_info(self, message: Message) -> bytes:
        argsz = unpack(protocol.DEVICE_INFO_BODY, message.payload, "a device info request")[0]
        _check_argsz(argsz, protocol.DEVICE_INFO_BODY.size)
        flags = protocol.DEVICE_FLAG_RESET | protocol.DEVICE_FLAG_PCI
        return protocol.DEVICE_INFO_BODY.pack(protocol.DEVICE_INFO_BODY.size, flags, NUM_REGIONS, NUM_IRQS)

    def _region_info(self, message: Message) -> bytes:
        argsz, _flags, index, _cap, _size, _offset = unpack(
            protocol.REGION_INFO_BODY, message.payload, "a region info request"
        )
        _check_argsz(argsz, protocol.REGION_INFO_BODY.size)
        flags, size = self._device.region_info(index)
        return protocol.REGION_INFO_BODY.pack(protocol.REGION_INFO_BODY.size, flags, index, 0, size, 0)

    def _region_io_fds(self, message: Message) -> bytes:
        argsz, flags, index, count = unpack(protocol.REGION_IO_FDS_BODY, message.payload, "a region I/O request")
        _check_argsz(argsz, protocol.REGION_IO_FDS_BODY.size)
        if flags or count:
            raise Refusal(errno.EINVAL, f"a region I/O request with flags {flags:#x} and count {count}")
        self._device.region_info(index)
        return protocol.REGION_IO_FDS_BODY.pack(protocol.REGION_IO_FDS_BODY.size, 0, index, 0)

    def _irq_info(self, message: Message) -> bytes:
        argsz, _flags, index, _count = unpack(protocol.IRQ_INFO_BODY, message.payload, "an interrupt info request")
        _check_argsz(argsz, protocol.IRQ_INFO_BODY.size)
        flags, count = self._device.irq_info(index)
        return protocol.IRQ_INFO_BODY.pack(protocol.IRQ_INFO_BODY.size, flags, index, count)

    def _set_irqs(self, message: Message) -> bytes:
        argsz, flags, index, start, count = unpack(protocol.IRQ_SET_HEAD, message.payload, "an interrupt set")
        data, action = flags & protocol.IRQ_DATA_MASK, flags & ~protocol.IRQ_DATA_MASK
        vectors = self._device.irq_info(index)[1]
        fds = message.fds
        what = f"an interrupt set of type {index}, flags {flags:#x}, start {start}, count {count}, {len(fds)} file descriptors"
        if argsz < protocol.IRQ_SET_HEAD.size or action not in protocol.IRQ_ACTIONS:
            raise Refusal(errno.EINVAL, f"{what}: argsz {argsz} or the action does not fit")
        if data not in (protocol.IRQ_DATA_NONE, protocol.IRQ_DATA_BOOL, protocol.IRQ_DATA_EVENTFD):
            raise Refusal(errno.EINVAL, f"{what}: the data must be one of none, bool, eventfd")
        if start + count > vectors:
            raise Refusal(errno.EINVAL, f"{what}: there are {vectors} vectors")
        if fds and (data != protocol.IRQ_DATA_EVENTFD or len(fds) != count):
            raise Refusal(errno.EINVAL, f"{what}: file descriptors come with eventfd data, one a vector")
        switches = message.payload[protocol.IRQ_SET_HEAD.size :]
        if data == protocol.IRQ_DATA_BOOL and len(switches) != count:
            raise Refusal(errno.EINVAL, f"{what}: {len(switches)} booleans came")
        if action == protocol.IRQ_ACTION_TRIGGER:
            self._trigger(index, start, count, data, fds, switches)
        elif not count:
            raise Refusal(errno.EINVAL, f"{what}: there is nothing to mask or unmask")
        # Nothing here raises an interrupt of its own, so masks have no effect and their eventfds are not kept.
        return b""

    def _trigger(self, index: int, start: int, count: int, data: int, fds: list[int], switches: bytes) -> None:
        vectors = range(start, start + count)
        if data == protocol.IRQ_DATA_NONE and not count:
            self.interrupts.release_type(index)
        elif data == protocol.IRQ_DATA_EVENTFD and fds:
            for vector in vectors:
                self.interrupts.assign(index, vector, fds.pop(0))
        elif data == protocol.IRQ_DATA_EVENTFD:
            for vector in vectors:
                self.interrupts.release(index, vector)
        else:
            for vector in vectors:
                if data == protocol.IRQ_DATA_NONE or switches[vector - start]:
                    self.interrupts.trigger(index, vector)

    def _region_read(self, message: Message) -> bytes:
        offset, index, count = unpack(protocol.ACCESS_HEAD, message.payload, "a region read")
        if count > self._client.max_data_xfer_bytes:
            raise Refusal(
                errno.EINVAL, f"a read of {count} bytes; at most {self._client.max_data_xfer_bytes} were agreed"
            )
        data = self._device.region_read(index, offset, count)
        self.reply_delay_s = self._device.read_delay_s(index)
        return protocol.ACCESS_HEAD.pack(offset, index, count) + data

    def _region_write(self, message: Message) -> bytes:
        offset, index, count = unpack(protocol.ACCESS_HEAD, message.payload, "a region write")
        data = message.payload[protocol.ACCESS_HEAD.size :]
        if len(data) != count:
            raise Refusal(errno.EINVAL, f"a write of {count} bytes with {len(data)} bytes of data")
        self._device.region_write(index, offset, data)
        return protocol.ACCESS_HEAD.pack(offset, index, count)

    def _region_write_multi(self, message: Message) -> bytes:
        (count,) = unpack(protocol.WRITE_MULTI_HEAD, message.payload, "a multiple region write")
        entries = message.payload[protocol.WRITE_MULTI_HEAD.size :]
        if len(entries) != count * protocol.WRITE_MULTI_ENTRY.size:
            raise Refusal(
                errno.EINVAL, f"{count} writes in {len(entries)} bytes; each takes {protocol.WRITE_MULTI_ENTRY.size}"
            )
        for offset, index, length, data in protocol.WRITE_MULTI_ENTRY.iter_unpack(entries):
            if length > protocol.WRITE_MULTI_DATA_BYTES:
                raise Refusal(
                    errno.EINVAL,
                    f"one of many writes has {length} bytes; at most {protocol.WRITE_MULTI_DATA_BYTES} fit",
                )
            self._device.region_write(index, offset, data[:length])
        return protocol.WRITE_MULTI_HEAD.pack(count)

    def _reset(self, message: Message) -> bytes:
        self._device.reset(RESET_DEVICE)
        return b""


def _check_argsz(argsz: int, needed: int) -> None:
    if argsz < needed:
        raise Refusal(errno.EINVAL, f"argsz is {argsz}, the answer takes {needed} bytes")


def _check_range(address: int, size: int) -> None:
    if not size or address + size > 1 << 64:
        raise Refusal(errno.EINVAL, f"a DMA range of {size:#x} bytes at {address:#x}")
