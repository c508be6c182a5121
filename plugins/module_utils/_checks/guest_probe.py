# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one script that looks around inside a guest, and the facts it brings back. Private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Iterable, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.errors import FleetError

# Runs once per guest, in anything that has a POSIX shell: busybox is enough. On an emulated CPU each process costs tens of milliseconds, so what
# the shell can do itself (read, case, test) starts none. Arguments: the word `driver` to ask the vendor's tools as well, then vendor:device ids.
# Everything a tool prints is indented by "| ", so that no output can pass for a line of ours ("@@ ").
PROBE = r"""
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin:/opt/rocm/bin
export PATH
say() { printf '@@ %s\n' "$*"; }
first() { line=; [ -r "$1" ] && read -r line < "$1"; printf '%s' "$line"; }
real() { (cd -P "$1" 2>/dev/null && pwd -P); }
run() {
  if command -v timeout >/dev/null 2>&1; then set -- timeout 60 "$@"; fi
  out=$("$@" 2>&1); rc=$?
  say output "$name" "$rc"
  printf '%s\n' "$out" | sed 's/^/| /'
}
say probe 1
driver=no; [ "$1" = driver ] && { driver=yes; shift; }
wanted=" $* "
for d in /sys/bus/pci/devices/*; do
  [ -r "$d/vendor" ] || continue
  v=; i=; c=
  read -r v < "$d/vendor"; read -r i < "$d/device"; read -r c < "$d/class"
  ids=${v#0x}:${i#0x}
  case $wanted in
    *" $ids "*) ;;
    *) say other "${d##*/}" "$ids" "${c#0x}"; continue ;;
  esac
  drv=-; [ -e "$d/driver" ] && { drv=$(real "$d/driver"); drv=${drv##*/}; }
  say function "${d##*/}" "$ids" "${c#0x}" "${drv:--}"
  n=0
  while read -r start end flags && [ $n -lt 6 ]; do
    say bar "$n" "$start" "$end" "$flags"; n=$((n + 1))
  done < "$d/resource"
  if command -v lspci >/dev/null 2>&1; then name=lspci; run lspci -D -nn -v -s "${d##*/}"; fi
done
for l in /sys/class/drm/card* /sys/class/drm/renderD*; do
  case ${l##*/} in *-*|*'*') continue ;; esac
  say drm "${l##*/}" "$(real "$l/device")"
done
for f in /proc/driver/nvidia/gpus/*/information; do
  [ -r "$f" ] || continue
  g=${f%/information}
  while read -r a b n rest; do [ "$a $b" = "Device Minor:" ] && say nvidia "${g##*/}" "$n"; done < "$f"
done
for n in /dev/dri/card* /dev/dri/renderD* /dev/nvidia[0-9]* /dev/nvidiactl /dev/kfd; do
  [ -c "$n" ] || continue
  if ( : <> "$n" ) 2>/dev/null; then say node "$n" opened; else say node "$n" refused; fi
done
say cpus "$(first /sys/devices/system/cpu/online)"
say boot_id "$(first /proc/sys/kernel/random/boot_id)"
say uptime "$(first /proc/uptime)"
say kernel "$(first /proc/version)"
while read -r key kib rest; do [ "$key" = MemTotal: ] && say memory_kib "$kib"; done < /proc/meminfo
while IFS= read -r l; do case $l in *' : System RAM') say ram "${l%% *}" ;; esac; done < /proc/iomem 2>/dev/null
for name in nvidia-smi rocm-smi gpu-burn gpu_burn rvs; do
  tool=$(command -v "$name") && say tool "$name" "$tool"
done
if [ "$driver" = yes ]; then
  name=nvidia-smi; command -v nvidia-smi >/dev/null 2>&1 && run nvidia-smi -L
  name=rocm-smi; command -v rocm-smi >/dev/null 2>&1 && run rocm-smi --showid
fi
dmesg 2>/dev/null | awk '
  NR == 1 { print "@@ log_begins " $0 }
  /BAR ?[0-9]|bridge window|an.t assign|an.t claim|an.t reserve|no space for|failed to assign|NVRM|amdgpu/ && kept < 600 { print "@@ log " $0; kept++ }
  END { print "@@ log_lines " NR }'
say end
"""

# Every address form that lspci, sysfs and drivers print; domains beyond ffff exist.
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)


@dataclass(frozen=True)
class GuestBar:
    """A line of the guest's `resource` file."""

    index: int
    start: int
    end: int
    flags: int

    @property
    def assigned(self) -> bool:
        """An unassigned BAR is all zeros, or starts at 0 with its size as the end (IORESOURCE_UNSET)."""
        return self.start != 0

    @property
    def size_bytes(self) -> int:
        return self.end - self.start + 1 if self.end > self.start else 0


@dataclass(frozen=True)
class GuestFunction:
    address: str
    ids: str
    class_code: int
    driver: Optional[str]
    bars: tuple[GuestBar, ...] = ()
    lspci: str = ""


@dataclass(frozen=True)
class ToolOutput:
    rc: int
    text: str


@dataclass(frozen=True)
class GuestFacts:
    """What the probe saw; a figure that the guest does not show is None."""

    functions: tuple[GuestFunction, ...] = ()
    others: tuple[str, ...] = ()
    drm: Mapping[str, str] = field(default_factory=dict)
    nvidia_minors: Mapping[str, int] = field(default_factory=dict)
    nodes: Mapping[str, bool] = field(default_factory=dict)
    cpus: Optional[int] = None
    boot_id: str = ""
    uptime_s: Optional[float] = None
    kernel: str = ""
    memory_kib: Optional[int] = None
    system_ram_bytes: int = 0
    tools: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, ToolOutput] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    log_lines: int = 0
    log_complete: bool = False


def probe_argv(ids: Iterable[str], driver: bool) -> list[str]:
    """The command for the guest; `ids` are vendor:device pairs in lower-case hexadecimal."""
    return ["sh", "-c", PROBE, "gpulab-probe", *(["driver"] if driver else []), *sorted(set(ids))]


def parse_probe(text: str) -> GuestFacts:
    """Facts from the probe's output; FleetError when the script did not come to its end."""
    reader = _Reader()
    for line in text.splitlines():
        reader.read(line)
    if not reader.begun or not reader.ended:
        tail = "\n".join(text.splitlines()[-5:])
        raise FleetError(
            f"the probe in the guest did not come to its end; its last lines: {tail or '(none)'}", output=text[-4000:]
        )
    return reader.facts()


class _Reader:
    """Collects the lines of one probe."""

    def __init__(self) -> None:
        self.begun = False
        self.ended = False
        self._functions: list[GuestFunction] = []
        self._bars: list[GuestBar] = []
        self._lspci: list[str] = []
        self._values: dict[str, str] = {}
        self._others: list[str] = []
        self._drm: dict[str, str] = {}
        self._minors: dict[str, int] = {}
        self._nodes: dict[str, bool] = {}
        self._tools: dict[str, str] = {}
        self._outputs: dict[str, tuple[int, list[str]]] = {}
        self._current: Optional[list[str]] = None
        self._ram_bytes = 0
        self._log: list[str] = []

    def read(self, line: str) -> None:
        if line.startswith("| ") or line == "|":
            if self._current is not None:
                self._current.append(line[2:])
            return
        if not line.startswith("@@ "):
            return
        word, _space, rest = line[3:].partition(" ")
        parts = rest.split()
        if word == "log":
            self._log.append(rest)
        elif word == "function" and len(parts) >= 4:
            self._close_function()
            self._functions.append(
                GuestFunction(parts[0], parts[1], _hex(parts[2]), None if parts[3] == "-" else parts[3])
            )
        elif word == "bar" and len(parts) == 4:
            self._bars.append(GuestBar(int(parts[0]), _hex(parts[1]), _hex(parts[2]), _hex(parts[3])))
        elif word == "output" and len(parts) == 2:
            self._begin_output(parts[0], int(parts[1]))
        elif word == "drm" and len(parts) == 2:
            found = _ADDRESS.findall(parts[1])
            if found:
                # virtio-gpu's node hangs below virtioN below the PCI function: the last address in the path is the function's.
                self._drm[parts[0]] = found[-1].lower()
        elif word == "nvidia" and len(parts) == 2:
            self._minors[parts[0].lower()] = int(parts[1])
        elif word == "node" and len(parts) == 2:
            self._nodes[parts[0]] = parts[1] == "opened"
        elif word == "tool" and len(parts) == 2:
            self._tools[parts[0]] = parts[1]
        elif word == "ram" and "-" in rest:
            start, _dash, end = rest.partition("-")
            self._ram_bytes += max(0, _hex(end) - _hex(start) + 1) if _hex(end) else 0
        elif word == "other":
            self._others.append(rest)
        elif word == "probe":
            self.begun = True
        elif word == "end":
            self.ended = True
        else:
            self._values[word] = rest

    def _begin_output(self, tool: str, rc: int) -> None:
        if tool == "lspci":
            self._current = self._lspci
        else:
            self._current = []
            self._outputs[tool] = (rc, self._current)

    def _close_function(self) -> None:
        if self._functions:
            last = self._functions[-1]
            text = "\n".join(self._lspci).strip()
            self._functions[-1] = GuestFunction(
                last.address, last.ids, last.class_code, last.driver, tuple(self._bars), text
            )
        self._bars, self._lspci = [], []

    def facts(self) -> GuestFacts:
        self._close_function()
        memory = self._values.get("memory_kib", "")
        uptime = self._values.get("uptime", "").split()
        return GuestFacts(
            functions=tuple(self._functions),
            others=tuple(self._others),
            drm=self._drm,
            nvidia_minors=self._minors,
            nodes=self._nodes,
            cpus=count_cpus(self._values.get("cpus", "")),
            boot_id=self._values.get("boot_id", ""),
            uptime_s=float(uptime[0]) if uptime else None,
            kernel=self._values.get("kernel", ""),
            memory_kib=int(memory) if memory.isdigit() else None,
            system_ram_bytes=self._ram_bytes,
            tools=self._tools,
            outputs={tool: ToolOutput(rc, "\n".join(lines)) for tool, (rc, lines) in self._outputs.items()},
            log=tuple(self._log),
            log_lines=int(self._values.get("log_lines") or 0),
            log_complete="Linux version" in self._values.get("log_begins", ""),
        )


def count_cpus(ranges: str) -> Optional[int]:
    """`0-3,8` of /sys/devices/system/cpu/online is 5; None when it is not such a list."""
    total = 0
    for part in ranges.strip().split(","):
        first, _dash, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            return None
        total += (int(last) if last else int(first)) - int(first) + 1
    return total


def _hex(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0
