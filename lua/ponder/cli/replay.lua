--- `ponder replay [FILE]`: runs a logged run again, offline.

local rerun = require "ponder.run.log.rerun"
local cli = require "ponder.cli.shared.main"
local flags = require "ponder.cli.shared.flags"

local replay = cli.command({ files = true, expects = { 0, 1, "one log" } }, { flags.TRUST })

replay.summary = "run a logged run again, from its log alone"

replay.about = [[
ponder replay [OPTION...] [FILE]

Runs the script of a log again, with only the script, prompts, replies and times in the log: no
model, no tool, no waiting. Programs, file writes, sockets and calls that are not in the log raise
NOT_IN_REPLAY, which names them. FILE is a path, or the name or number of a run in `ponder log`;
without it, the newest run. In the log of a server FILE#3 answers the request of the third run
again, and prints the answer.]]

function replay.run(opts, operands)
    local past = cli.need(rerun.open(operands[1], "read"))
    cli.refuse(past:refusal("replay", opts.trust), 1)
    return past:replay(cli.execute)
end

return replay
