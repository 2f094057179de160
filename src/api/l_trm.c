/*
 * l_trm.c -- ponder.core.trm: status and calls of a TRM machine, for lua/ponder/trm.lua, which does
 * the rest. A busy machine has one open call.
 */
#include "api/l_machine.h"

enum { REASONING = MACHINE_BUSY, SUPERVISING, IMPROVING };

static const char *const statuses[] = {"idle",        "completed", "error", "reasoning",
                                       "supervising", "improving", NULL};
static const char *const calls[] = {"reason", "supervise", "improve", NULL};

static const MachineMove moves[] = {
    {MACHINE_IDLE, REASONING, "start"},      {REASONING, SUPERVISING, "reasoning"},
    {SUPERVISING, IMPROVING, "supervision"}, {SUPERVISING, MACHINE_COMPLETED, "supervision"},
    {IMPROVING, REASONING, "improvement"},   {IMPROVING, MACHINE_COMPLETED, "improvement"},
    {REASONING, MACHINE_ERROR, "error"},     {SUPERVISING, MACHINE_ERROR, "error"},
    {IMPROVING, MACHINE_ERROR, "error"},
};

static const MachineKind trm_kind = {"trm", statuses, calls, moves, sizeof moves / sizeof *moves};

PONDER_MODULE(luaopen_ponder_core_trm)
{
    machine_new_plain_class(L, &trm_kind);
    return 1;
}
