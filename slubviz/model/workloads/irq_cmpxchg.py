"""Local compare-and-exchange against disabling and enabling interrupts: the module of Mathieu Desnoyers'
mail of October 2007.

Three loops, each with interrupts saved and preemption disabled around it and the time read inside; the
time of the loop itself is part of a round, as it was there.  Restoring the flags is what the mail calls
enabling (STI), saving them disabling (CLI).
"""


class test_word(struct):
    value: word


test_val: test_word


def test_cmpxchg_local(loops):
    r = this_cpu(results)
    place = addressof(test_val)
    flags = irq_save()
    preempt_off()
    r.start = rdtsc()
    for i in range(loops):
        expected = 0  # the instruction leaves what it found in the register of what it expects
        cmpxchg_local(place.value, expected, expected)
        count(OPERATIONS)
    r.stop = rdtsc()
    irq_restore(flags)
    preempt_on()


def test_irq_restore(loops):
    r = this_cpu(results)
    flags = irq_save()
    preempt_off()
    r.start = rdtsc()
    for i in range(loops):
        irq_restore(flags)
        count(OPERATIONS)
    r.stop = rdtsc()
    irq_restore(flags)
    preempt_on()


def test_irq_save(loops):
    r = this_cpu(results)
    flags = irq_save()
    preempt_off()
    r.start = rdtsc()
    for i in range(loops):
        inner = irq_save()
        count(OPERATIONS)
    r.stop = rdtsc()
    irq_restore(flags)
    preempt_on()
