--- `ponder replay [FILE]`: runs a logged run again, offline.

local rerun = require "ponder.log.rerun"
local cli = require "ponder.cli"

local replay = { files = true, expects = { 0, 1, "one log" } }

replay.summary = "run a logged run again, from its log alone"

replay.about = [[
ponder replay [FILE]

Runs the script of a log again, with only the script, prompts, replies and times in the log: no
model, no tool, no waiting. Programs, file writes, sockets and calls that are not in the log raise
NOT_IN_REPLAY, which names them. FILE is a path, or the name or number of a run in `ponder log`;
without it, the newest run. FILE#3 stops after the third run of the file; in the log of a server it
answers only that request, and prints the answer.]]

---See ponder.cli.
function replay.run(_, operands)
    local past = cli.need(rerun.open(operands[1], "read"))
    cli.refuse(past:refusal(true), 1)
    return past:replay(cli.execute)
end

return replay
