/* machine.c -- see machine.h. */
#include "core/machine.h"

#include <math.h>
#include <string.h>

void machine_init(Machine *m, const Alloc *alloc, const MachineKind *kind)
{
    memset(m, 0, sizeof *m);
    m->alloc = *alloc;
    m->kind = kind;
    m->status = MACHINE_IDLE;
    m->next_number = 1;
    m->reserved_number = MACHINE_NO_NUMBER;
    m->current.number = MACHINE_NO_NUMBER;
    m->started_at = m->finished_at = NAN;
}

void machine_free(Machine *m)
{
    alloc_free(&m->alloc, m->calls, m->call_capacity * sizeof *m->calls);
    m->calls = NULL;
    m->call_count = m->call_capacity = 0;
}

bool machine_copy(Machine *to, const Machine *from)
{
    if (!machine_reserve(to, from->call_count))
        return false;
    if (from->call_count > 0)
        memcpy(to->calls, from->calls, from->call_count * sizeof *from->calls);
    Machine room = *to;
    *to = *from;
    to->alloc = room.alloc;
    to->calls = room.calls;
    to->call_capacity = room.call_capacity;
    return true;
}

static bool may_move(const Machine *m, uint8_t to)
{
    if (m->status == to)
        return machine_is_busy(m);
    for (size_t i = 0; i < m->kind->move_count; i++)
        if (m->kind->moves[i].from == m->status && m->kind->moves[i].to == to)
            return true;
    return false;
}

bool machine_move(Machine *m, uint8_t to)
{
    if (!may_move(m, to))
        return false;
    m->status = to;
    return true;
}

bool machine_start(Machine *m, uint64_t reserved, double now)
{
    if (m->status != MACHINE_IDLE || !machine_reserve(m, 1))
        return false;
    m->status = MACHINE_BUSY;
    m->started_at = now;
    m->next_number = 0;
    machine_open(m, 0, 0);
    m->reserved_number = reserved;
    return true;
}

bool machine_reserve(Machine *m, uint32_t more)
{
    return more <= UINT32_MAX / 2 - m->call_count &&
           array_reserve(m->calls, m->call_count, m->call_capacity, &m->alloc, more);
}

uint64_t machine_open(Machine *m, uint32_t kind, uint32_t subject)
{
    if (m->next_number == m->reserved_number)
        m->next_number++;
    MachineCall call = {m->next_number++, kind, subject};
    m->calls[m->call_count++] = call;
    m->current = m->calls[0];
    return call.number;
}

/* Binary search: calls are sorted by number. */
static uint32_t find_index(const Machine *m, uint64_t number)
{
    uint32_t low = 0, high = m->call_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (m->calls[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->call_count && m->calls[low].number == number ? low : m->call_count;
}

const MachineCall *machine_find(const Machine *m, uint64_t number)
{
    uint32_t i = find_index(m, number);
    return i < m->call_count ? &m->calls[i] : NULL;
}

bool machine_close(Machine *m, uint64_t number)
{
    uint32_t i = find_index(m, number);
    if (i == m->call_count)
        return false;
    m->current = m->calls[i];
    m->call_count--;
    memmove(&m->calls[i], &m->calls[i + 1], (m->call_count - i) * sizeof *m->calls);
    if (m->call_count > 0)
        m->current = m->calls[0];
    return true;
}

bool machine_finish(Machine *m, uint8_t status, double now)
{
    if (status >= MACHINE_BUSY || !machine_move(m, status))
        return false;
    m->call_count = 0;
    m->finished_at = now;
    return true;
}

bool machine_is_coherent(const Machine *m)
{
    for (uint32_t i = 0; i < m->call_count; i++)
        if (m->calls[i].number >= m->next_number ||
            (i > 0 && m->calls[i].number <= m->calls[i - 1].number))
            return false;
    return machine_is_busy(m) == (m->call_count > 0);
}
