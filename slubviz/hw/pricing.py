"""What a machine file's costs mean to the engine: its parameters, and the price of every micro-op.

``cost_parameters`` makes the parameter array, ``machine_code`` the program as the engine runs it.  A kernel
for one CPU (``smp_kernel = false``) is compiled without what only SMP needs, so ``machine_code`` puts other
micro-ops in the place of some: spin locks are nothing, a barrier is one for the compiler, and
read-modify-writes have no lock prefix (``xchg`` locks without one).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slubviz.hw import layout as L
from slubviz.hw.isa import F_COST, F_IMM, F_OP, WORDS, Op
from slubviz.hw.machine_file import MachineSpec

IntArray = NDArray[np.int64]


def millicycles(cycles: float) -> int:
    """Cycles as the engine's whole millicycles."""
    return round(cycles * L.MILLI)


def cost_parameters(spec: MachineSpec) -> list[int]:
    """The P array's parameters, without the function table."""
    cost = {name: entry.value for name, entry in spec.costs.items()}
    values = [0] * L.P_COUNT
    for index, name in (
        (L.P_L2_HIT, "l3_hit" if spec.l3 else "l2_hit"),
        (L.P_MIDDLE_HIT, "l2_hit"),
        (L.P_TRANSFER_MIDDLE, "transfer_same_l3" if spec.l3 else "transfer_same_l2"),
        (L.P_TRANSFER_SIBLING, "transfer_same_l2"),
        (L.P_TRANSFER_PACKAGE, "transfer_same_package"),
        (L.P_TRANSFER_SYSTEM, "transfer_other_package"),
        (L.P_TRANSFER_NODE, "transfer_other_node"),
        (L.P_MEMORY_LOCAL, "memory_local"),
        (L.P_MEMORY_REMOTE, "memory_remote"),
        (L.P_STORE_MISS_PER_MILLE, "store_miss_share"),
        (L.P_STORE_WINDOW, "store_window"),
        (L.P_PREFETCH_LEFT_PER_MILLE, "prefetch_leftover"),
        (L.P_SPINNER_REREAD, "spinner_reread"),
        (L.P_SPINNER_RETRY, "spinner_retry"),
        (L.P_BUS_TRANSACTION, "bus_transaction"),
        (L.P_INTERRUPT_ENTRY, "interrupt_entry"),
        (L.P_INTERRUPT_EXIT, "interrupt_exit"),
    ):
        values[index] = millicycles(cost[name])  # a fraction becomes per mille the same way
    values[L.P_PREFETCH_REACH] = spec.prefetch_reach_lines
    pairs = spec.page_size_bytes > spec.line_bytes  # else the neighbour is in another page
    values[L.P_ADJACENT_LINE] = int(spec.adjacent_line_prefetch and pairs)
    return values


_FREE_OPS = (Op.COUNT, Op.COUNT_N, Op.LOCK_NOTE, Op.GRANULE, Op.RENDEZVOUS, Op.OWNER_NOTE)
_COST_OF_OP: dict[Op, str] = {
    Op.MUL: "multiply",
    Op.MULI: "multiply",
    Op.DIV: "divide",
    Op.MOD: "divide",
    Op.DIVI: "divide",
    Op.MODI: "divide",
    Op.FLS: "bit_scan",
    Op.CALL: "call",
    Op.RET: "return",
    Op.LD: "load",
    Op.LDS: "load",
    Op.ST: "store",
    Op.UNLOCK: "store",
    Op.CMPXCHG_LOCAL: "cmpxchg_local",
    Op.CMPXCHG_DOUBLE_LOCAL: "cmpxchg_double_local",
    Op.ATOMIC_ADD_LOCAL: "cmpxchg_local",
    Op.CMPXCHG: "locked_operation",
    Op.CMPXCHG_DOUBLE: "locked_operation",
    Op.XCHG: "locked_operation",
    Op.ATOMIC_ADD: "locked_operation",
    Op.LOCK: "locked_operation",
    Op.TRYLOCK: "locked_operation",
    Op.UNLOCK_LOCKED: "locked_operation",
    Op.IRQ_SAVE: "irq_save",
    Op.IRQ_RESTORE: "irq_restore",
    Op.IRQ_DISABLE: "irq_disable",
    Op.IRQ_ENABLE: "irq_enable",
    Op.PREEMPT_DISABLE: "preempt",
    Op.PREEMPT_ENABLE: "preempt",
    Op.PREEMPT_COUNT: "load",
    Op.CPU_ID: "cpu_id",
    Op.NODE_ID: "cpu_id",
    Op.RDTSC: "rdtsc",
    Op.PAUSE: "pause",
}
_BARRIER_COSTS = {1: "barrier_write", 2: "barrier_read", 3: "barrier_full"}


#: What a kernel for one CPU has in the place of a micro-op; without cost where it is nothing.
_UP_NOTHING = (Op.LOCK, Op.UNLOCK, Op.UNLOCK_LOCKED)
_UP_OPS: dict[Op, Op] = {
    Op.CMPXCHG: Op.CMPXCHG_LOCAL,
    Op.CMPXCHG_DOUBLE: Op.CMPXCHG_DOUBLE_LOCAL,
    Op.ATOMIC_ADD: Op.ATOMIC_ADD_LOCAL,
}


def _without_smp(rows: IntArray) -> IntArray:
    """The rows of a kernel for one CPU.  Their number and places stay, so that debug information fits."""
    ops = rows[:, F_OP].copy()
    changed = rows.copy()
    for op in _UP_NOTHING:
        changed[ops == op] = 0
        changed[ops == op, F_OP] = Op.INSTRUCTIONS  # of no instructions
    for op, other in _UP_OPS.items():
        changed[ops == op, F_OP] = other
    changed[ops == Op.LOCK_IRQSAVE, F_OP] = Op.IRQ_SAVE
    tried = ops == Op.TRYLOCK  # succeeds, always
    changed[tried, F_OP] = Op.LI
    changed[tried, F_IMM] = 1
    changed[ops == Op.BARRIER, F_IMM] = 0
    return changed


def machine_code(spec: MachineSpec, code: NDArray[np.int32]) -> IntArray:
    """The program as the engine runs it.

    Parameters
    ----------
    spec : the machine
    code : rows of isa.WORDS, flat

    Returns
    -------
    int64 rows, flat, with each micro-op's plain cost filled in, in millicycles.
    """
    rows = code.astype(np.int64).reshape(-1, WORDS).copy()
    if not spec.smp_kernel:
        rows = _without_smp(rows)
    cost = {name: millicycles(entry.value) for name, entry in spec.costs.items()}
    prices = np.full(int(max(Op)) + 1, cost["instruction"], dtype=np.int64)
    for op in _FREE_OPS:
        prices[op] = 0
    for op, name in _COST_OF_OP.items():
        prices[op] = cost[name]
    rows[:, F_COST] = prices[rows[:, F_OP]]
    saving = rows[:, F_OP] == Op.LOCK_IRQSAVE
    rows[saving, F_COST] = cost["irq_save"] + cost["locked_operation"]
    straight = rows[:, F_OP] == Op.INSTRUCTIONS
    rows[straight, F_COST] = rows[straight, F_IMM] * cost["instruction"]
    barriers = rows[:, F_OP] == Op.BARRIER
    for kind in range(4):
        name = _BARRIER_COSTS.get(kind, "")
        rows[barriers & (rows[:, F_IMM] == kind), F_COST] = cost[name] if name else 0
    return rows.reshape(-1)
