"""Traffic like that of hackbench: in every group each sender sends to each receiver.

A message is one 256-byte object: the sender allocates it, writes it and appends it to the receiver's queue;
the receiver takes it off, reads it and frees it.  A queue is a list of messages linked through their first
words under a spinlock taken with interrupts off, as a socket's queue of sk_buffs is.  A sender waits when it
finds QUEUE_DEPTH messages queued; several that look at the same time may exceed that by one each.

Tasks are spread over the CPUs in turn and stay there.  A CPU runs a task until it has to wait, then the next
one: nobody is preempted or moved.  Where none of its tasks can run, the CPU looks at them again and again.

What is not modelled is instructions(n): the system calls, the sockets, copying the text, and the switch from
task to task.  hackbench of the mail of 2012 took 3,132 instructions a message (250.6e9 for 80 million), of
which the two halves here are given 1,400 each, the allocator's own instructions apart.

Cells are the cycles of all CPUs divided by the messages, waiting included.
"""

MESSAGE_BYTES = 256
TASKS_OF_GROUP = SENDERS + RECEIVERS
TASKS = GROUPS * TASKS_OF_GROUP
SEND_INSTRUCTIONS = 1400
RECEIVE_INSTRUCTIONS = 1400
SWITCH_INSTRUCTIONS = 200

SWITCHES = counter()
QUEUE_FULL = counter()
QUEUE_EMPTY = counter()


class message(struct):
    next: ptr[message]


class message_queue(struct, size=CACHE_LINE_BYTES, align=CACHE_LINE_BYTES):
    """Of one receiver."""
    lock: uint32
    queued: int32
    first: ptr[message]
    last: ptr[message]


class hackbench_task(struct, size=CACHE_LINE_BYTES, align=CACHE_LINE_BYTES):
    remaining: word  # messages to send or to receive
    receiver: word  # next receiver of the group, of senders


message_queues: array[message_queue, GROUPS * RECEIVERS]
hackbench_tasks: array[hackbench_task, TASKS]


def hackbench_setup(rounds):
    """Every sender is to send this many messages to every receiver of its group."""
    for number in range(TASKS):
        task = addressof(hackbench_tasks[number])
        member = number % TASKS_OF_GROUP
        task.receiver = 0
        if member < SENDERS:
            task.remaining = rounds * RECEIVERS
            task.receiver = member % RECEIVERS  # or all would begin with the same one
        else:
            task.remaining = rounds * SENDERS
        count(OPERATIONS)


@inline
def append_message(q: message_queue, m: message):
    m.next = NULL
    flags = irq_save()
    preempt_off()
    spin_lock(q.lock)
    last = q.last
    if last == NULL:
        q.first = m
    else:
        last.next = m
    q.last = m
    q.queued += 1
    spin_unlock(q.lock)
    preempt_on()
    irq_restore(flags)


@inline
def take_message(q: message_queue) -> ptr[message]:
    flags = irq_save()
    preempt_off()
    spin_lock(q.lock)
    m = q.first
    if m != NULL:
        q.first = m.next
        if m.next == NULL:
            q.last = NULL
        q.queued -= 1
    spin_unlock(q.lock)
    preempt_on()
    irq_restore(flags)
    return m


def send_messages(task: hackbench_task, group) -> word:
    """Until all are sent or a queue is full; how many."""
    sent = 0
    while task.remaining > 0:
        receiver = task.receiver
        q = addressof(message_queues[group * RECEIVERS + receiver])
        if q.queued >= QUEUE_DEPTH:
            count(QUEUE_FULL)
            break
        m = cast(message, kmalloc(MESSAGE_BYTES, GFP_KERNEL))
        bug_on(m == NULL, "no memory for a message")
        instructions(SEND_INSTRUCTIONS)  # write(), the socket's checks, copying the text, waking the reader
        append_message(q, m)
        receiver += 1
        if receiver == RECEIVERS:
            receiver = 0
        task.receiver = receiver
        task.remaining -= 1
        sent += 1
    return sent


def receive_messages(task: hackbench_task, q: message_queue) -> word:
    """Until all have come or the queue is empty; how many."""
    received = 0
    while task.remaining > 0:
        if q.first == NULL:
            count(QUEUE_EMPTY)
            break
        m = take_message(q)
        if m == NULL:
            break
        instructions(RECEIVE_INSTRUCTIONS)  # read(), the socket's checks, copying the text, waking the writer
        kfree(cast(free_object, m))
        task.remaining -= 1
        received += 1
        count(OPERATIONS)
    return received


@inline
def run_task(number) -> word:
    """Messages that the task handled."""
    task = addressof(hackbench_tasks[number])
    group = number // TASKS_OF_GROUP
    member = number % TASKS_OF_GROUP
    if member < SENDERS:
        return send_messages(task, group)
    return receive_messages(task, addressof(message_queues[group * RECEIVERS + member - SENDERS]))


def hackbench(delay):
    """All tasks of this CPU, from ``delay`` cycles on, until each has sent or received everything."""
    begin = rdtsc() + delay
    while rdtsc() < begin:
        cpu_relax()
    r = this_cpu(results)
    r.start = rdtsc()
    waiting = 1
    while waiting:
        waiting = 0
        handled = 0
        for number in range(smp_processor_id(), TASKS, NR_CPUS):
            if hackbench_tasks[number].remaining > 0:
                done = run_task(number)
                if done > 0:
                    count(SWITCHES)
                    instructions(SWITCH_INSTRUCTIONS)  # schedule() and the switch of stacks
                    handled += done
                if hackbench_tasks[number].remaining > 0:
                    waiting = 1
        if waiting and handled == 0:
            cpu_relax()
    r.stop = rdtsc()
