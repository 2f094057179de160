--- `ponder resume [FILE]`: continues a run that was killed, interrupted or failed.

local rerun = require "ponder.log.rerun"
local args = require "ponder.args"
local cli = require "ponder.cli"
local quote = require "ponder.quote"
local consent = require "ponder.report.consent"
local fork = require "ponder.cli.fork"
local limits = require "ponder.cli.shared.limits"

local RULES = {
    fork = { help = "if the script, the prompts or the options have changed, fork the run" },
    sync = require("ponder.log.flags").RULES.sync,
    trust = consent.RULES.trust, base_url = consent.RULES.base_url,
}
local ORDER = { "fork", "trust", "base_url", "sync" }

local resume = { rules = RULES, order = ORDER, files = true }

resume.summary = "go on with a run that was killed or has failed"

resume.usage = [[
ponder resume [OPTION...] [FILE]

Runs the script of a log again, from its start. What the log holds is answered from it at once; no
call that was answered is made twice. Then the run goes on, and is logged in the same file. FILE
may also be the name or number of a run of `ponder log`; without it, the newest. A call that had
failed when the run ended is tried again. A file may hold runs within a run (ponder.run): all that
are incomplete go on, and with FILE#3 the third alone.

]] .. args.help(RULES, ORDER)

-- Options that belong to `ponder fork`, if given here: "--max-calls".
local function misplaced(arguments)
    for _, word in ipairs(arguments) do
        local name = word:match("^%-%-?([%w-]+)")
        name = name and name:gsub("-", "_")
        if name and not RULES[name] and (limits.RULES[name] or fork.rules[name]) then
            return (word:match "^[^=]+")
        end
    end
end

---@param arguments string[]
---@return integer status that of the run; 1 where it cannot be resumed
function resume.run(arguments)
    local opts, operands = args.parse("ponder resume", arguments, RULES)
    local for_fork = not opts and misplaced(arguments)
    if for_fork then
        return cli.usage_error(("ponder resume: %s is for ponder fork, which runs a log changed "
            .. "and makes new calls only: ponder fork -o max-calls=200"):format(for_fork))
    elseif not opts then
        return cli.usage_error(operands)
    elseif operands[2] then
        return cli.usage_error("ponder resume: expected one log (got " .. operands[2] .. ")")
    end
    local past, message = rerun.open(operands[1], "write", opts.sync)
    local changes, gone
    if past then
        message = consent.give(past, "resume", opts)
    end
    if past and not message then
        changes, gone = past:changes()
    end
    if changes and not opts.fork then
        message = ("%s: %s; %s"):format(past.path, changes, gone
            and "put it back, or replay what the log holds" or "--fork runs it as it is now")
    elseif past and not message then
        message = past:obstacle()
    end
    if message then
        io.stderr:write("ponder resume: ", quote.terminal(message), "\n")
        return 1
    end
    if changes then
        return past:fork(cli.execute, past.run.arguments)
    end
    return past:resume(cli.execute)
end

return resume
