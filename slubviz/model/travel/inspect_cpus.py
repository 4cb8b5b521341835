"""Facts about CPUs and locks."""

from __future__ import annotations

from slubviz.hw import layout as L
from slubviz.hw.isa import CpuState
from slubviz.hw.machine import MachineError
from slubviz.model.booted import BootedKernel
from slubviz.model.errors import UserError
from slubviz.model.symbols import lock_name
from slubviz.model.travel.call_stack import CallStackView, held_locks
from slubviz.model.travel.inspection import CpuTarget, Inspection, LockTarget, Row


def inspect_cpu(kernel: BootedKernel, stack: CallStackView) -> Inspection:
    """What a CPU does, holds and waits for.

    Parameters
    ----------
    stack : its call stack at this moment
    """
    machine, cpu = kernel.machine, stack.cpu
    address = machine.cpu_word(cpu, L.C_WAIT_ADDRESS)
    waits = machine.cpu_word(cpu, L.C_STATE) == CpuState.WAITING_LOCK
    rows = [
        Row("state", stack.state_text, LockTarget(address) if waits else None),
        Row("clock", f"{stack.clock_cycles:,.0f} cycles"),
        Row("micro-ops", f"{machine.cpu_word(cpu, L.C_MICRO_OPS):,}"),
        Row("node", str(machine.cpu_word(cpu, L.C_NODE))),
        Row("interrupts", "on" if stack.irq_enabled else "off"),
        Row("preempt count", str(stack.preempt_count)),
        Row("interrupt depth", str(stack.depth)),
    ]
    if stack.frames:
        inner = stack.frames[-1]
        rows.append(Row("in", f"{inner.function}, {inner.file}:{inner.line}"))
        rows.append(Row("next micro-op", stack.micro_op_text))
    for address, since in held_locks(kernel, cpu):
        text = f"{lock_name(kernel, address)}, since cycle {since:,.0f}"
        rows.append(Row("holds", text, LockTarget(address)))
    rows += [Row("interrupt to come", text) for text in stack.pending]
    return Inspection(f"CPU {cpu}", tuple(rows), CpuTarget(cpu))


def inspect_lock(kernel: BootedKernel, address: int) -> Inspection:
    """Who holds a lock and who waits for it.

    Raises
    ------
    UserError
        If there is no word at that address.
    """
    machine = kernel.machine
    try:
        word = machine.read(address, 4)
    except MachineError:
        raise UserError(f"there is no lock at {address:#x}: no memory") from None
    holders = [
        (cpu, since)
        for cpu in range(machine.spec.cpus)
        for held, since in held_locks(kernel, cpu)
        if held == address
    ]
    rows = [Row("held by", f"CPU {cpu}, since cycle {since:,.0f}", CpuTarget(cpu)) for cpu, since in holders]
    if not holders:
        rows.append(Row("held by", "nobody"))
    for number, (cpu, since) in enumerate(waiters(kernel, address), 1):
        rows.append(Row(f"waiting, {number}", f"CPU {cpu}, since cycle {since:,.0f}", CpuTarget(cpu)))
    rows.append(Row("word", f"{word:#x}"))
    rows.append(Row("address", f"{address:#x}"))
    return Inspection(lock_name(kernel, address), tuple(rows), LockTarget(address))


def waiters(kernel: BootedKernel, address: int) -> list[tuple[int, float]]:
    """CPU, and cycle since which it waits, of all that wait for a lock; who came first comes first."""
    blocks = kernel.machine.cpu_blocks()
    found = [
        (int(block[L.C_WAIT_SINCE]) / L.MILLI, cpu)
        for cpu, block in enumerate(blocks)
        if block[L.C_STATE] == CpuState.WAITING_LOCK and block[L.C_WAIT_ADDRESS] == address
    ]
    return [(cpu, since) for since, cpu in sorted(found)]
