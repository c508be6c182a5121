# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the build scripts do around the compiler: versions, retries, progress. A script stands for go; real builds are in the live tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

FILES = Path(__file__).resolve().parents[4] / "roles" / "control_plane" / "files"
THEIRS = """module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
\tgo.etcd.io/etcd/server/v3 v3.7.0 // indirect
\tk8s.io/api v0.0.0
\tk8s.io/kms v0.0.0
\tk8s.io/utils v0.0.0-20260101000000-0123456789ab
)
"""
# Answers as go does; $STATE holds what tests want to go wrong, and what was asked.
GO = r"""#!/bin/bash
echo "$*" >>"$STATE/asked"
fault() { [ -f "$STATE/$1" ] && { read -r line <"$STATE/$1"; sed -i 1d "$STATE/$1"; [ -n "$line" ] && { echo "$line" >&2; exit 1; }; }; }
case "$*" in
"list -m -f {{.GoMod}} "*) fault gomod; echo "$STATE/theirs" ;;
"mod download "*) grep -qxF "${*: -1}" "$STATE/refused" && { echo "reading ...: 404 Not Found" >&2; exit 1; }; exit 0 ;;
"mod edit -replace "*) echo "replace ${*: -1}" >>go.mod ;;
"mod edit -require "*) echo "require ${*: -1}" >>go.mod ;;
"list -m -f {{.Version}} "*) echo v3.7.0 ;;
"list -deps "*) fault deps; printf 'a\nb\nc\n' ;;
build*)
  out=; while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; last=$1; shift; done
  for i in $(seq 60); do echo "package/number$i"; done
  names=$(basename "$out") dir=$(dirname "$out")/
  [[ $out != */ ]] || names="kube-apiserver kube-controller-manager kube-scheduler kubectl" dir=$out
  cp go.mod "$STATE/go.mod"
  for name in $names; do printf '#!/bin/bash\necho "Kubernetes v%s"\n' "$VERSION_SAID" >"$dir$name"; chmod +x "$dir$name"; done ;;
esac
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    state = tmp_path / "state"
    state.mkdir()
    (state / "theirs").write_text(THEIRS)
    (state / "refused").touch()
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "go").write_text(GO)
    (programs / "go").chmod(0o755)
    # Pauses between tries are no part of what is tested.
    (programs / "sleep").write_text("#!/bin/bash\n")
    (programs / "sleep").chmod(0o755)
    return state


def build(state: Path, version: str = "1.37.2", said: str | None = None) -> subprocess.CompletedProcess[str]:
    out = state.parent / "out"
    out.mkdir()
    environ = {
        **os.environ,
        "PATH": f"{state.parent / 'bin'}:{os.environ['PATH']}",
        "STATE": str(state),
        "KUBERNETES_VERSION": version,
        "VERSION_SAID": said or version,
    }
    command = ["bash", str(FILES / "build-kubernetes.sh"), str(out)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_a_module_of_our_own_repeats_the_replacements(state: Path):
    done = build(state)
    assert done.returncode == 0, done.stderr
    assert (state / "go.mod").read_text().splitlines() == [
        "module gpulab.invalid/control-plane",
        "go 1.26.0",
        "godebug default=go1.26",
        "require k8s.io/kubernetes v1.37.2",
        "replace k8s.io/api=k8s.io/api@v0.37.2",
        "replace k8s.io/kms=k8s.io/kms@v0.37.2",
        "require go.etcd.io/etcd/etcdctl/v3@v3.7.0",
    ]
    out = state.parent / "out"
    assert sorted(path.name for path in out.iterdir()) == ["bin", "etcd-version"]
    assert (out / "etcd-version").read_text() == "3.7.0\n"
    assert "@ Kubernetes 1.37.2: 50 of 3 packages compiled" in done.stdout


def test_a_staging_module_that_is_not_served_is_taken_from_a_patch_before(state: Path):
    (state / "refused").write_text("k8s.io/kms@v0.37.2\nk8s.io/kms@v0.37.1\n")
    done = build(state)
    assert done.returncode == 0, done.stderr
    assert "replace k8s.io/kms=k8s.io/kms@v0.37.0" in (state / "go.mod").read_text()
    assert "@ k8s.io/kms v0.37.2 is not served, v0.37.0 is taken" in done.stdout


def test_one_that_is_not_served_at_all_ends_it(state: Path):
    (state / "refused").write_text("".join(f"k8s.io/kms@v0.37.{patch}\n" for patch in range(3)))
    done = build(state)
    assert done.returncode != 0
    assert "serves no k8s.io/kms v0.37.x" in done.stderr and "control_plane_kubernetes_version" in done.stderr


def test_a_passing_fault_is_tried_again_and_stays_out_of_the_answer(state: Path):
    (state / "gomod").write_text("dial tcp: i/o timeout\n")
    (state / "deps").write_text("connection reset by peer\nconnection reset by peer\n")
    done = build(state)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("failed, again in") == 3
    assert "of 3 packages" in done.stdout


def test_a_release_that_is_not_served_ends_it_at_once(state: Path):
    (state / "gomod").write_text("reading https://proxy/k8s.io/kubernetes/@v/v1.37.9.info: 404 Not Found\n" * 3)
    done = build(state, "1.37.9")
    assert done.returncode != 0 and "again in" not in done.stdout
    assert "does not serve k8s.io/kubernetes v1.37.9. Choose another patch release" in done.stderr


def test_a_server_that_calls_itself_otherwise_is_no_result(state: Path):
    done = build(state, said="0.0.0-master")
    assert done.returncode != 0 and "calls itself Kubernetes v0.0.0-master, not Kubernetes v1.37.2" in done.stderr


def test_without_go_it_says_what_to_do(state: Path):
    (state.parent / "bin" / "go").unlink()
    environ = {**os.environ, "PATH": "/usr/bin:/bin", "KUBERNETES_VERSION": "1.37.2"}
    command = ["bash", str(FILES / "build-kubernetes.sh"), str(state)]
    if subprocess.run(["bash", "-c", "command -v go"], env=environ, capture_output=True, check=False).returncode == 0:
        pytest.skip("this computer has its Go in /usr/bin")
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0 and "go is not on PATH. Install Go" in done.stderr
