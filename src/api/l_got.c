/* l_got.c -- ponder.core.got: a plain machine (l_machine.h), for lua/ponder/got.lua. */
#include "api/l_machine.h"

enum { GENERATING = MACHINE_BUSY, SCORING, CONNECTING, AGGREGATING, REFINING };

static const char *const statuses[] = {
    "idle",       "completed",   "error",    "generating", "scoring",
    "connecting", "aggregating", "refining", NULL,
};

static const char *const calls[] = {
    "generate_thought", "score_thoughts", "find_connections", "aggregate", "vote", "refine", NULL,
};

static const MachineMove moves[] = {
    {MACHINE_IDLE, GENERATING, "start"},
    {GENERATING, SCORING, "thoughts"},
    {GENERATING, CONNECTING, "thoughts"},
    {GENERATING, AGGREGATING, "thoughts"},
    {GENERATING, MACHINE_COMPLETED, "thoughts"},
    {SCORING, GENERATING, "scores"},
    {SCORING, CONNECTING, "scores"},
    {SCORING, AGGREGATING, "scores"},
    {SCORING, REFINING, "scores"},
    {SCORING, MACHINE_COMPLETED, "scores"},
    {CONNECTING, GENERATING, "connections"},
    {CONNECTING, AGGREGATING, "connections"},
    {CONNECTING, MACHINE_COMPLETED, "connections"},
    {AGGREGATING, SCORING, "aggregate"},
    {AGGREGATING, REFINING, "aggregate"},
    {AGGREGATING, MACHINE_COMPLETED, "aggregate"},
    {REFINING, SCORING, "refinement"},
    {REFINING, MACHINE_COMPLETED, "refinement"},
    {GENERATING, MACHINE_ERROR, "error"},
    {SCORING, MACHINE_ERROR, "error"},
    {CONNECTING, MACHINE_ERROR, "error"},
    {AGGREGATING, MACHINE_ERROR, "error"},
    {REFINING, MACHINE_ERROR, "error"},
};

PONDER_MODULE(luaopen_ponder_core_got)
{
    static const MachineKind kind = {"got", statuses, calls, moves, sizeof moves / sizeof *moves};
    machine_new_plain_class(L, &kind);
    return 1;
}
