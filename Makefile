# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The front door. Every target sets up what it needs; caches live outside the checkout, in $XDG_CACHE_HOME/gpulab-fleet.
# ARGS goes on to ansible-playbook or pytest:  make passthrough ARGS="-e vm_ram_mb=2048"   make test-unit ARGS="-k hole"

.DEFAULT_GOAL := help
.PHONY: help passthrough virtual-hosts fleet control-plane teardown test test-unit lint integration live molecule bench clean
MAKEFLAGS += --no-print-directory

INVENTORY ?= inventories/virtual
ARGS ?=
EXTRA ?=
export INVENTORY
# Control planes and fake nodes need no virtual hosts, and nothing that those need.
fleet_inventory = $(if $(filter-out inventories/virtual,$(INVENTORY)),$(INVENTORY),inventories/fleet)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

passthrough: ## Pass every GPU of INVENTORY to a VM and a container, and write a report (virtual GPU hosts unless you name others)
	@scripts/play playbooks/passthrough.yml $(ARGS) $(EXTRA)

virtual-hosts: ## Only build and start the virtual GPU hosts of inventories/virtual
	@scripts/play playbooks/virtual_hosts.yml $(ARGS) $(EXTRA)

fleet: ## Run a Kubernetes control plane, fill it with 100 fake nodes of AWS p5, validate claims and pods, and write a report
	@INVENTORY=$(fleet_inventory) scripts/play playbooks/fake_fleet.yml $(ARGS) $(EXTRA)

control-plane: ## Only make and start the Kubernetes control plane
	@INVENTORY=$(fleet_inventory) scripts/play playbooks/control_plane.yml $(ARGS) $(EXTRA)

teardown: ## End every process that was started here and remove every VM, virtual host and control plane
	@scripts/play playbooks/teardown.yml $(ARGS) $(EXTRA)

test: ## Run everything that CI holds
	@scripts/test all $(ARGS)

test-unit: ## Run the unit tests
	@scripts/test tests/unit $(ARGS)

lint: ## Run the static tests: ruff, mypy, ansible-lint, yamllint, sanity, documentation
	@scripts/test tests/static $(ARGS)

integration: ## Run all integration tests, the live ones too
	@scripts/test tests/integration $(ARGS)

live: ## Run the long tests that make test leaves out: the whole fleet, faults, small holes, every Kubernetes release
	@scripts/test live $(ARGS)

molecule: ## Run the molecule scenarios
	@scripts/test tests/molecule $(ARGS)

bench: ## Show where the time of a passthrough run goes
	@scripts/bench $(ARGS)

clean: ## Remove build outputs and reports; with CACHE=1 the cache as well
	@scripts/clean $(if $(filter 1 yes true,$(CACHE)),--cache)
