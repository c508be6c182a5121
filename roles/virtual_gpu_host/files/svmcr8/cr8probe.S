/* SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
 * SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * cr8probe: does this QEMU survive a nested guest's CR8 write with a virtual interrupt pending? Bare metal, 1 second.
 *   as --32 -o cr8probe.o cr8probe.S; ld -m elf_i386 -Ttext=0x100000 --build-id=none -o cr8probe cr8probe.o
 *   qemu-system-x86_64 -accel tcg -cpu max -display none -nodefaults -no-reboot -device isa-debug-exit -kernel cr8probe
 * Exit status 33: passed. 35: SVM did not work. 134: QEMU aborted (the bug). 0: no AltMovCr8 in this CPU model, says nothing.
 * Three CR8 writes: outside a guest, in the nested guest (IF = 0, V_IRQ pending), and outside again.
 */
    .set VMCB, 0x200000          /* two free pages; QEMU clears memory */
    .set HSAVE, 0x201000
    .macro PUT off, val
    movl $\val, VMCB + \off
    .endm
    .macro SEG off, sel, attr
    movl $(\sel | (\attr << 16)), VMCB + \off
    movl $0xffffffff, VMCB + \off + 4
    .endm
    .text
    .code32
    .globl _start
    .balign 4
    .long 0x1badb002, 0, -0x1badb002            /* multiboot header */
_start:
    cli
    movl $0x180000, %esp
    movl $1, %eax
    .byte 0xf0, 0x0f, 0x22, 0xc0                /* lock mov %eax, %cr0 = mov %eax, %cr8 (AltMovCr8) */
    movl $0xc0000080, %ecx                      /* EFER.SVME */
    rdmsr
    orl $0x1000, %eax
    wrmsr
    movl $0xc0010117, %ecx                      /* VM_HSAVE_PA */
    movl $HSAVE, %eax
    xorl %edx, %edx
    wrmsr
    PUT 0x00c, 0x81000000                       /* intercept HLT, SHUTDOWN */
    PUT 0x010, 0x00000003                       /* intercept VMRUN, VMMCALL */
    PUT 0x058, 1                                /* ASID */
    PUT 0x060, 0x010f0100                       /* V_INTR_MASKING, priority 15, V_IRQ, V_TPR 0 */
    PUT 0x064, 0x20                             /* its vector */
    SEG 0x400, 0x10, 0xc93
    SEG 0x410, 0x08, 0xc9b
    SEG 0x420, 0x10, 0xc93
    SEG 0x430, 0x10, 0xc93
    PUT 0x4d0, 0x1000                           /* EFER */
    PUT 0x558, 0x11                             /* CR0: PE, ET */
    PUT 0x560, 0x400
    PUT 0x568, 0xffff0ff0
    PUT 0x570, 2                                /* RFLAGS: IF = 0 */
    PUT 0x578, guest
    PUT 0x5d8, 0x170000
    movl $VMCB, %eax
    .byte 0x0f, 0x01, 0xd8                      /* vmrun */
    movl $3, %eax
    .byte 0xf0, 0x0f, 0x22, 0xc0                /* CR8 again, outside */
    movb $0x11, %al
    cmpl $0x78, VMCB + 0x70                     /* exit code HLT? */
    jne 1f
    cmpb $2, VMCB + 0x60                        /* the guest's V_TPR as it wrote it? */
    jne 1f
    movb $0x10, %al
1:  movw $0x501, %dx
    outb %al, %dx
2:  hlt
    jmp 2b
guest:
    movl $2, %eax
    .byte 0xf0, 0x0f, 0x22, 0xc0                /* the CR8 write */
    hlt
