#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# OUTDIR/bin: kwok, which plays the kubelets of fake nodes, and kwokctl, which starts control planes; both of KWOK_VERSION.

# shellcheck source-path=SCRIPTDIR source=go-common.sh
. "$(dirname "$0")/go-common.sh"

out=$1
version=${KWOK_VERSION:?}
mkdir "$out/bin" "$out/module"
cd "$out/module"
printf 'module gpulab.invalid/kwok\n' >go.mod
say "KWOK $version: downloading modules"
theirs=$(fetched "KWOK $version" go list -m -f '{{.GoMod}}' "sigs.k8s.io/kwok@v$version") ||
    die "The Go module proxy does not serve sigs.k8s.io/kwok v$version. Choose another release with control_plane_kwok_version."
{
    echo 'module gpulab.invalid/kwok'
    awk '/^go [0-9]/ {print}' "$theirs"
    echo "require sigs.k8s.io/kwok v$version"
} >go.mod
commands=(sigs.k8s.io/kwok/cmd/kwok sigs.k8s.io/kwok/cmd/kwokctl)
packages=$(fetched "modules of KWOK $version" go list -deps "${commands[@]}" | wc -l)
[ "$packages" -gt 0 ] || die "The modules of KWOK $version cannot be downloaded."
compile "KWOK $version" "$packages" -ldflags "-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=v$version" -o "$out/bin/" "${commands[@]}"
rm -rf "$out/module"
say "KWOK $version is built"
