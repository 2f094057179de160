/*
 * l_cot.c -- ponder.core.cot: status and call of a machine that makes one call, for
 * lua/ponder/strategy/cot.lua, which does the rest.
 */
#include "api/l_machine.h"

enum { ANSWERING = MACHINE_BUSY };

static const char *const statuses[] = {"idle", "completed", "error", "answering", NULL};
static const char *const calls[] = {"answer", NULL};

static const MachineMove moves[] = {
    {MACHINE_IDLE, ANSWERING, "start"},
    {ANSWERING, MACHINE_COMPLETED, "answer"},
    {ANSWERING, MACHINE_ERROR, "error"},
};

static const MachineKind cot_kind = {"cot", statuses, calls, moves, sizeof moves / sizeof *moves};

PONDER_MODULE(luaopen_ponder_core_cot)
{
    machine_new_plain_class(L, &cot_kind);
    return 1;
}
