--- `ponder replay [FILE]`: runs a logged run again, offline.

local rerun = require "ponder.log.rerun"
local args = require "ponder.args"
local cli = require "ponder.cli"
local quote = require "ponder.quote"

local replay = { files = true }

replay.summary = "run a logged run again, from its log alone"

replay.usage = [[
ponder replay [FILE]

Runs the script of a log again, with the script, prompts, replies and times that the log holds, and
nothing else: no model, no tool, no waiting. Programs, file writes, sockets and calls that the log
does not have raise NOT_IN_REPLAY, which names them. FILE may also be the name or number of a run of
`ponder log`; without it, the newest. FILE#3 stops once the third run of the file is over; of the
log of a server it is that request alone, and prints the answer.]]

---@param arguments string[]
---@return integer status that of the run; 1 where it cannot be replayed
function replay.run(arguments)
    local opts, operands = args.parse("ponder replay", arguments, {})
    if not opts then
        return cli.usage_error(operands)
    elseif operands[2] then
        return cli.usage_error("ponder replay: expected one log (got " .. operands[2] .. ")")
    end
    local past, message = rerun.open(operands[1], "read")
    message = message or past:obstacle(true)
    if message then
        io.stderr:write("ponder replay: ", quote.terminal(message), "\n")
        return 1
    end
    return past:replay(cli.execute)
end

return replay
