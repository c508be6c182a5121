/* SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
 * SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * svmcr8: work-around for a QEMU bug, as a QEMU TCG plugin (-plugin file=svmcr8.so; nothing is patched in the binary).
 *
 * With nested SVM under TCG, a guest's write to CR8 runs helper_write_crN(), which raises the pending virtual interrupt
 * (V_IRQ) with cpu_interrupt() while not holding the big QEMU lock: "assertion failed: (bql_locked())".
 * TCG calls its helpers through the structures helper_info_NAME, whose first member is the function. This library puts a
 * wrapper there, before any code is translated, that holds the lock around that one case:
 *  - CR8 (reg 8) only;
 *  - only in a nested guest (VMRUN is always intercepted there: the SVM architecture demands it). Outside, the helper
 *    takes the lock itself, for the APIC's task priority, and must not find it taken.
 * Every name below is a global symbol of QEMU's executable. On a build that lacks one, the loader refuses this library
 * ("undefined symbol"), and QEMU does not start. The check in hook() covers the rest.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SVM_EXIT_VMRUN 0x80

extern struct { void *func; } helper_info_write_crN;
extern void helper_write_crN(void *env, uint32_t reg, uint64_t value);
extern bool cpu_svm_has_intercept(void *env, uint32_t type);
extern bool bql_locked(void);
extern void bql_lock_impl(const char *file, int line);
extern void bql_unlock(void);

static void write_crN(void *env, uint32_t reg, uint64_t value)
{
    bool lock = reg == 8 && !bql_locked() && cpu_svm_has_intercept(env, SVM_EXIT_VMRUN);

    if (lock) {
        bql_lock_impl(__FILE__, __LINE__);
    }
    helper_write_crN(env, reg, value);
    if (lock) {
        bql_unlock();
    }
}

static int hook(void)
{
    if (helper_info_write_crN.func != (void *)helper_write_crN) {
        fprintf(stderr, "svmcr8: this QEMU is not laid out as expected\n");
        return 1;
    }
    helper_info_write_crN.func = (void *)write_crN;
    return 0;
}

#ifdef PLUGIN_API
EXPORT int qemu_plugin_version = PLUGIN_API;

EXPORT int qemu_plugin_install(uint64_t id, const char *const *info, int argc, char **argv)
{
    if (strcmp(info[0], "x86_64") != 0) {
        fprintf(stderr, "svmcr8: this is not qemu-system-x86_64\n");
        return 1;
    }
    return hook();
}
#else   /* LD_PRELOAD, for a QEMU built without plugins */
__attribute__((constructor)) static void preload(void)
{
    if (hook()) {
        _exit(1);
    }
}
#endif
