--- `ponder replay [FILE]`: runs a logged run again, offline.

local rerun = require "ponder.log.rerun"
local args = require "ponder.args"
local cli = require "ponder.cli"

local replay = { files = true }

replay.summary = "run a logged run again, from its log alone"

replay.about = [[
ponder replay [FILE]

Runs the script of a log again, with only the script, prompts, replies and times in the log: no
model, no tool, no waiting. Programs, file writes, sockets and calls that are not in the log raise
NOT_IN_REPLAY, which names them. FILE is a path, or the name or number of a run in `ponder log`;
without it, the newest run. FILE#3 stops after the third run of the file; in the log of a server it
answers only that request, and prints the answer.]]

---@param arguments string[]
---@return integer status of the run; 1 if it cannot be replayed
function replay.run(arguments)
    local opts, operands = args.parse("ponder replay", arguments, {})
    if not opts then
        return cli.usage_error(operands)
    elseif operands[2] then
        return cli.usage_error("ponder replay: expected one log (got " .. operands[2] .. ")")
    end
    local past, message = rerun.open(operands[1], "read")
    message = message or past:refusal(true)
    if message then
        return cli.fail("ponder replay", message)
    end
    return past:replay(cli.execute)
end

return replay
