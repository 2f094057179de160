--- `ponder fork [FILE]`: runs a logged run again, changed; its log answers equal requests.

local again = require "ponder.log.again"
local args = require "ponder.args"
local cli = require "ponder.cli"
local host = require "ponder.core.host"

local RULES = {
    script = { value = "NEW", files = true, help = "run NEW in place of the script" },
    prompts = { value = "DIR", files = true, help = "look for prompt files there first" },
    o = { value = "OPT=VALUE,...", help = "options of the command or of the script, in place of "
        .. "those that it had: -o temperature=0.2,max-depth=4" },
    log = { value = "FILE", files = true, help = "log the new run in FILE" },
}
local ORDER = { "script", "prompts", "o", "log" }

local fork = { rules = RULES, order = ORDER, files = true }

fork.summary = "run a logged run again with a change, and pay for new calls only"

fork.usage = [[
ponder fork [OPTION...] [FILE]

Runs the script of a log again, as it is now or changed as the options say, into a new log. A call
whose model, messages, parameters and sample number are the same is answered from FILE, others are
made; at the end it says how many calls and how much money that saved. FILE may also be the name or
number of a run of `ponder log`; without it, the newest.

]] .. args.help(RULES, ORDER)

-- The arguments with another script.
local function with_script(past, list, script)
    local rules = require("ponder.cli.run").rules
    local _, operands, first = args.parse("ponder run", list, rules, { stops_at_operand = true })
    if past.run.command ~= "run" or past.run.script == "-e" or not operands then
        return nil, "--script is for runs of a script file"
    end
    list[first] = script
    return list
end

-- The arguments with further options; the last one of a name counts.
local function with_options(list, text)
    local last = #list + 1
    for i, word in ipairs(list) do
        if word == "--" then
            last = i
            break
        end
    end
    for part in text:gmatch("[^,]+") do
        local name, value = part:match("^%-*([%w_-]+)=(.*)$")
        if not name and not part:match("^%-*[%w_-]+$") then
            return nil, ("-o must be OPT=VALUE,... (got %s)"):format(part)
        end
        name = (name or part:gsub("^%-+", "")):gsub("_", "-")
        table.insert(list, last, "--" .. name .. (value and "=" .. value or ""))
        last = last + 1
    end
    return list
end

-- The arguments of the new run, or nil and what is wrong with the options.
local function changed_arguments(past, opts)
    local list, message = table.move(past.run.arguments, 1, #past.run.arguments, 1, {}), nil
    if opts.script then
        list, message = with_script(past, list, host.absolute(opts.script) or opts.script)
    end
    if list and opts.o then
        list, message = with_options(list, opts.o)
    end
    if list and opts.prompts then
        local folder = host.absolute(opts.prompts)
        if not folder then
            return nil, opts.prompts .. ": no such folder"
        end
        host.set_environment("PONDER_PROMPTS", folder)
    end
    return list, message
end

---@param arguments string[]
---@return integer status that of the run; 1 where the log cannot be read
function fork.run(arguments)
    local opts, operands = args.parse("ponder fork", arguments, RULES)
    if not opts then
        return cli.usage_error(operands)
    elseif operands[2] then
        return cli.usage_error("ponder fork: expected one log (got " .. operands[2] .. ")")
    end
    local past, message = again.open(operands[1], "read")
    if not past then
        io.stderr:write("ponder fork: ", message, "\n")
        return 1
    end
    local list, problem = changed_arguments(past, opts)
    if not list then
        return cli.usage_error("ponder fork: " .. problem)
    end
    return past:fork(cli.execute, list, opts.log)
end

return fork
