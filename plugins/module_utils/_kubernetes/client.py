# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the collection asks of a Kubernetes API server: plain dictionaries over typed paths. Private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional

from ansible_collections.gpulab.fleet.plugins.module_utils._common.deadline import Deadline
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.access import ClusterAddress, open_access
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.errors import (
    AlreadyExists,
    ApiError,
    ClusterError,
    NotFound,
)
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.kinds import DRA_GROUP, DRA_VERSIONS, Kind
from ansible_collections.gpulab.fleet.plugins.module_utils._kubernetes.transport import Answer, Transport

# Who we are in metadata.managedFields. Whoever else changes a field of ours appears there too.
FIELD_MANAGER = "gpulab.fleet"

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Version:
    """A server's version."""

    major: int
    minor: int
    git: str

    @property
    def short(self) -> str:
        return f"{self.major}.{self.minor}"


class Kubernetes:
    """One cluster. Raises ClusterError and its kinds, nothing else; safe to use from many threads."""

    def __init__(self, transport: Transport, dry_run: bool = False, concurrency: int = 16) -> None:
        self.transport = transport
        # Every write is then judged by the server, admission and defaults included, and not stored.
        self.dry_run = dry_run
        self.concurrency = concurrency

    @classmethod
    def open(
        cls,
        address: ClusterAddress,
        concurrency: int = 16,
        deadline: Deadline | None = None,
        patience_s: float = 20.0,
        dry_run: bool = False,
    ) -> Kubernetes:
        """Prepare up to `concurrency` connections; the first request is what tells whether somebody answers."""
        access = open_access(address, concurrency)
        return cls(Transport(access, deadline=deadline, patience_s=patience_s), dry_run, concurrency)

    @property
    def warnings(self) -> list[str]:
        """What the server warned of, each text once."""
        return self.transport.warnings

    @property
    def requests(self) -> int:
        return self.transport.requests

    @property
    def deadline(self) -> Deadline | None:
        return self.transport.deadline

    @property
    def host(self) -> str:
        return self.transport.access.host

    @property
    def user(self) -> str:
        return self.transport.access.user

    def close(self) -> None:
        self.transport.access.close()

    # Reading

    def get(
        self, kind: Kind, name: str, namespace: str | None = None, subresource: str = ""
    ) -> Optional[dict[str, Any]]:
        """An object; None when there is none of that name."""
        try:
            return self._ask("get", "GET", kind, kind.path(namespace, name, subresource), name, namespace).json()
        except NotFound as error:
            if error.details.get("no_such_resource"):
                raise
            return None

    def list(
        self, kind: Kind, namespace: str | None = None, labels: str = "", fields: str = "", limit: int = 500
    ) -> Iterator[dict[str, Any]]:
        """All objects of a kind, one at a time and `limit` a request: a large cluster is never in memory as a whole."""
        for item in self._pages(kind, namespace, labels, fields, limit, {}):
            # The items of a list lack them.
            item.setdefault("apiVersion", kind.api_version)
            item.setdefault("kind", kind.kind)
            yield item

    def list_metadata(
        self, kind: Kind, namespace: str | None = None, labels: str = "", fields: str = "", limit: int = 1000
    ) -> Iterator[dict[str, Any]]:
        """The same with `metadata` alone, which for slices is a small part of the whole."""
        return self._pages(kind, namespace, labels, fields, limit, {"Accept": _METADATA_LIST})

    def _pages(
        self,
        kind: Kind,
        namespace: str | None,
        labels: str,
        fields: str,
        limit: int,
        headers: Mapping[str, str],
    ) -> Iterator[dict[str, Any]]:
        query = {"limit": str(limit)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        while True:
            page = self._ask(
                "list", "GET", kind, kind.path(namespace), "", namespace, query=query, headers=headers
            ).json()
            items = page.get("items") or []
            following = (page.get("metadata") or {}).get("continue")
            del page
            items.reverse()
            while items:
                yield items.pop()
            if not following:
                return
            query["continue"] = following

    # Writing

    def create(
        self, kind: Kind, obj: Mapping[str, Any], namespace: str | None = None, read: bool = True
    ) -> dict[str, Any]:
        """Create an object and return it as the server has it.

        With `read` false, which is for many objects of which some like it went well, it returns an empty dictionary: the server
        neither looks for unknown fields nor sends more than metadata back.
        When an attempt ended without an answer and the object is there at the next, that is what comes back in either case.
        """
        name = str((obj.get("metadata") or {}).get("name") or "")
        headers = None if read else {"Accept": _METADATA}
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Warn" if read else "Ignore"}
        try:
            answer = self._write("create", "POST", kind, kind.path(namespace), name, namespace, obj, headers, query)
        except AlreadyExists as error:
            found = self.get(kind, name, namespace) if error.details.get("repeated") and name else None
            if found is None:
                raise
            return found
        return answer.json() if read else {}

    def update(
        self, kind: Kind, obj: Mapping[str, Any], namespace: str | None = None, subresource: str = ""
    ) -> dict[str, Any]:
        """Replace an object; with metadata.resourceVersion in it, Conflict tells that somebody was faster."""
        name = str(obj["metadata"]["name"])
        path = kind.path(namespace, name, subresource)
        return self._write("update", "PUT", kind, path, name, namespace, obj, subresource=subresource).json()

    def patch(
        self,
        kind: Kind,
        name: str,
        body: object,
        namespace: str | None = None,
        how: str = "merge",
        subresource: str = "",
    ) -> dict[str, Any]:
        """Change parts of an object: a merge patch, a list of JSON patch operations, or a strategic merge patch."""
        path = kind.path(namespace, name, subresource)
        headers = {"Content-Type": _PATCHES[how]}
        return self._write("patch", "PATCH", kind, path, name, namespace, body, headers, subresource=subresource).json()

    def apply(
        self,
        kind: Kind,
        obj: Mapping[str, Any],
        namespace: str | None = None,
        force: bool = False,
        manager: str = FIELD_MANAGER,
    ) -> dict[str, Any]:
        """Server-side apply: the fields in `obj` become ours; those of others stay, or are a Conflict unless `force`."""
        name = str(obj["metadata"]["name"])
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        headers = {"Content-Type": _APPLY}
        return self._write(
            "patch", "PATCH", kind, kind.path(namespace, name), name, namespace, obj, headers, query
        ).json()

    def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        uid: str | None = None,
        grace_s: int | None = None,
        propagation: str | None = None,
    ) -> bool:
        """Delete an object, with `uid` only if it is still that one; False when it was not there."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if self.dry_run:
            # A server that finds options in the body does not look for them in the query.
            options["dryRun"] = ["All"]
        try:
            self._write("delete", "DELETE", kind, kind.path(namespace, name), name, namespace, options, query={})
        except NotFound as error:
            if error.details.get("no_such_resource"):
                raise
            return False
        return True

    def _write(
        self,
        verb: str,
        method: str,
        kind: Kind,
        path: str,
        name: str,
        namespace: str | None,
        body: object,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        subresource: str = "",
    ) -> Answer:
        full = {"fieldManager": FIELD_MANAGER} if query is None else dict(query)
        if method != "DELETE":
            full.setdefault("fieldValidation", "Warn")
        if self.dry_run:
            full["dryRun"] = "All"
        return self._ask(verb, method, kind, path, name, namespace, body, full, headers, subresource)

    def _ask(
        self,
        verb: str,
        method: str,
        kind: Kind,
        path: str,
        name: str,
        namespace: str | None,
        body: object = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        subresource: str = "",
    ) -> Answer:
        return self.transport.request(
            method,
            path,
            body,
            query,
            headers,
            verb=verb,
            resource=f"{kind.resource}/{subresource}" if subresource else kind.resource,
            name=name,
            namespace=namespace or "",
        )

    # The server

    def raw(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Any other request, with our credentials, retries and errors."""
        return self.transport.request(method, path, body, query, headers, resource=path, timeout_s=timeout_s)

    def server_version(self) -> Version:
        data = self.raw("GET", "/version").json()
        digits = [re.match(r"\d+", str(data.get(key, ""))) for key in ("major", "minor")]
        if digits[0] is None or digits[1] is None:
            raise ClusterError(f"{self.host} does not tell its Kubernetes version: {data}; is this an API server?")
        return Version(int(digits[0].group()), int(digits[1].group()), str(data.get("gitVersion", "")))

    def api_versions(self, group: str) -> tuple[str, ...]:
        """The versions of an API group that the server serves, its preferred one first; none when it has no such group."""
        try:
            data = self.raw("GET", f"/apis/{group}").json()
        except NotFound:
            return ()
        versions = [str(entry["version"]) for entry in data.get("versions") or ()]
        preferred = (data.get("preferredVersion") or {}).get("version")
        return tuple(sorted(versions, key=lambda version: version != preferred))

    def dra_version(self) -> str:
        """The newest version of resource.k8s.io that the server has slices in."""
        served = self.api_versions(DRA_GROUP)
        for version in DRA_VERSIONS:
            if version in served:
                return version
        raise ClusterError(
            f"{self.host} serves no usable version of {DRA_GROUP} (it has {', '.join(served) or 'none'}; needed is one of"
            f" {', '.join(DRA_VERSIONS)}); Kubernetes 1.34 has it, 1.32 and 1.33 have it with the feature gate"
            " DynamicResourceAllocation and runtime-config resource.k8s.io/v1beta1=true"
        )

    def may(self, verb: str, kind: Kind, namespace: str | None = None, subresource: str = "") -> bool:
        """Whether RBAC lets us; True as well when the server cannot be asked."""
        attributes = {"verb": verb, "group": kind.group, "resource": kind.plural}
        if namespace:
            attributes["namespace"] = namespace
        if subresource:
            attributes["subresource"] = subresource
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        try:
            answer = self.raw("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        except ApiError as error:
            if error.fatal:
                raise
            return True
        return bool((answer.json().get("status") or {}).get("allowed"))
