--- `ponder resume [FILE]`: continues a run that was killed, interrupted or failed.

local rerun = require "ponder.run.log.rerun"
local args = require "ponder.args"
local cli = require "ponder.cli.shared.main"
local flags = require "ponder.cli.shared.flags"
local logging = require "ponder.cli.shared.logging"
local scheduler = require "ponder.run.task.scheduler"

local resume = cli.command({ files = true, expects = { 0, 1, "one log" } }, {
    { "fork", help = "if the script, the prompts or the options have changed, fork the run" },
    { "detach", help = "if a batch has not ended, end with exit status 75" },
    flags.TRUST,
    logging.RULES.sync,
})

resume.summary = "continue a run that was killed, interrupted or failed"

resume.about = [[
ponder resume [OPTION...] [FILE]

Runs the script of a log again from its start. Calls that the log holds are answered from it at
once; none is made twice. Then the run continues, and is logged in the same file. FILE is a path, or
the name or number of a run in `ponder log`; without it, the newest run. A call that had failed when
the run ended is tried again. If the file holds runs within a run (ponder.run), all incomplete ones
continue. In the log of a server FILE#3 answers the request of the third run.]]

-- What else it is given may be an option of `ponder fork`.
function resume.parse(name, list, rules)
    local opts, operands = args.parse(name, list, rules)
    if not opts and operands:find("unknown option", 1, true) then
        operands = operands .. "; to rerun a log with changes: ponder fork -o max-calls=200"
    end
    return opts, operands
end

function resume.run(opts, operands)
    local past = cli.need(rerun.open(operands[1], "write", opts.sync))
    cli.refuse(past:refusal("resume", opts.trust), 1)
    local changes, gone = past:changes()
    cli.need(not changes or opts.fork, ("%s: %s; %s"):format(past.path, changes, gone
        and "put it back, or replay what the log holds" or "--fork runs it as it is now"))
    if changes then
        return past:fork(cli.execute, past.run.arguments)
    end
    return scheduler.with_context("detach", opts.detach, past.resume, past, cli.execute)
end

return resume
