#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# OUTDIR/bin: kube-apiserver, kube-controller-manager, kube-scheduler and kubectl of KUBERNETES_VERSION, with the etcd and etcdctl that it
# was released with. Made from Go modules: `go install` refuses k8s.io/kubernetes because of its replace directives, so a module of our
# own repeats them with the published versions of the same sources.

# shellcheck source-path=SCRIPTDIR source=go-common.sh
. "$(dirname "$0")/go-common.sh"

out=$1
version=${KUBERNETES_VERSION:?}
minor=$(cut -d. -f2 <<<"$version")
patch=$(cut -d. -f3 <<<"$version")
mkdir "$out/bin" "$out/module"
cd "$out/module"

say "Kubernetes $version: asking for its go.mod"
printf 'module gpulab.invalid/control-plane\n' >go.mod
theirs=$(fetched "Kubernetes $version" go list -m -f '{{.GoMod}}' "k8s.io/kubernetes@v$version") ||
    die "The Go module proxy does not serve k8s.io/kubernetes v$version. Choose another patch release with control_plane_kubernetes_version."

# A staging module, or its checksum, may be missing at the very patch release; a neighbour has the same code but for fixes.
staging_version() {
    local module=$1 try
    for try in $(seq "$patch" -1 0); do
        if fetched "$module" go mod download "$module@v0.$minor.$try"; then
            [ "$try" = "$patch" ] || say "$module v0.$minor.$patch is not served, v0.$minor.$try is taken"
            echo "v0.$minor.$try"
            return
        fi
    done
    die "The Go module proxy serves no $module v0.$minor.x, which Kubernetes $version needs. Choose another patch release with control_plane_kubernetes_version."
}

{
    echo 'module gpulab.invalid/control-plane'
    awk '/^go [0-9]/ {print} /^godebug \(/ {inside = 1} inside {print} /^\)/ {inside = 0} /^godebug [^(]/ {print}' "$theirs"
    echo "require k8s.io/kubernetes v$version"
} >go.mod
staged=$(awk '$1 ~ /^k8s\.io\// && $2 == "v0.0.0" {print $1}' "$theirs")
[ -n "$staged" ] || die "The go.mod of k8s.io/kubernetes v$version names no staging modules; it is not laid out as the releases 1.32 to 1.37 are."
say "Kubernetes $version: downloading its $(wc -w <<<"$staged") staging modules"
for module in $staged; do
    found=$(staging_version "$module")
    go mod edit -replace "$module=$module@$found"
done

commands=(kube-apiserver kube-controller-manager kube-scheduler kubectl)
servers=("${commands[@]/#/k8s.io/kubernetes/cmd/}")
say "Kubernetes $version: downloading modules"
packages=$(fetched "modules of Kubernetes $version" go list -deps "${servers[@]}" | wc -l)
[ "$packages" -gt 0 ] || die "The modules of Kubernetes $version cannot be downloaded."
# etcdctl is not among the modules of Kubernetes, so without its version the newest would be taken, and with it another etcd.
etcd=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
go mod edit -require "go.etcd.io/etcd/etcdctl/v3@$etcd"
say "etcd $etcd: downloading modules"
fetched "modules of etcd $etcd" go list -deps go.etcd.io/etcd/server/v3 go.etcd.io/etcd/etcdctl/v3 >/dev/null ||
    die "The modules of etcd $etcd cannot be downloaded."

compile "Kubernetes $version" "$packages" -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v$version \
-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor" -o "$out/bin/" "${servers[@]}"
compile "etcd $etcd" 600 -ldflags "-s -w" -o "$out/bin/etcd" go.etcd.io/etcd/server/v3
compile "etcdctl $etcd" 400 -ldflags "-s -w" -o "$out/bin/etcdctl" go.etcd.io/etcd/etcdctl/v3

[ "$("$out/bin/kube-apiserver" --version)" = "Kubernetes v$version" ] ||
    die "The built kube-apiserver calls itself $("$out/bin/kube-apiserver" --version), not Kubernetes v$version."
echo "${etcd#v}" >"$out/etcd-version"
rm -rf "$out/module"
say "Kubernetes $version and etcd $etcd are built"
