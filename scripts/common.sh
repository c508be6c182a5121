# shellcheck shell=bash
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Sourced by the scripts of this folder: messages with elapsed time, retries, the cache's place.

cache=${XDG_CACHE_HOME:-$HOME/.cache}
case $cache in /*) ;; *) cache=$HOME/.cache ;; esac # the XDG specification has relative paths ignored
# shellcheck disable=SC2034 # for those who source this file
cache=$cache/gpulab-fleet

# The clock of a whole run starts once and is handed to child scripts.
export GPULAB_STARTED_S=${GPULAB_STARTED_S:-$(date +%s)}

say() { printf '[%4d s] %s\n' "$(($(date +%s) - GPULAB_STARTED_S))" "$*" >&2; }
die() { say "error: $*"; exit 1; }

# with_retries TIMES COMMAND...: pauses of 2, 4, 8 ... seconds between the tries.
with_retries() {
  local times=$1 try pause=2
  shift
  for ((try = 1; ; try++)); do
    "$@" && return 0
    [ "$try" -lt "$times" ] || return 1
    say "try $try of $times failed: $*; next in $pause s"
    sleep "$pause"
    pause=$((pause * 2))
  done
}

# ticking TEXT COMMAND...: says TEXT every 5 seconds while the command runs, so that nobody wonders whether it hangs.
ticking() {
  local text=$1 ticker status=0
  shift
  say "$text"
  (
    exec 9>&- >/dev/null # the lock and the output belong to the caller alone
    trap 'kill "$nap"; exit' TERM
    while sleep 5 & nap=$!; wait "$nap"; do say "$text ..."; done
  ) &
  ticker=$!
  "$@" || status=$?
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  return "$status"
}
