--- `ponder trust`: directories of prompt files that may be used without being named.

local args = require "ponder.args"
local cli = require "ponder.cli"
local options = require "ponder.options"
local text = require "ponder.report.text"
local trust = require "ponder.prompt.trust"

local RULES = {
    list = { help = "list the trusted directories" },
    remove = { help = "stop trusting DIR" },
}
local ORDER = { "list", "remove" }

local command = { rules = RULES, order = ORDER, files = true }

command.summary = "use the prompt files of a directory without naming it each time"

command.about = [[
ponder trust [OPTION...] [DIR]

Prompt files in ./prompts are used only if --prompts or $PONDER_PROMPTS names that directory, or
after `ponder trust ./prompts`. Trust ends when one of the directory's Lua files changes; it
requires that you own the directory and its files and that nobody else may write them. The list of
trusted directories is in $XDG_STATE_HOME/ponder.]]

local function fail(message)
    return cli.fail("ponder trust", message)
end

local function list()
    local known, problem = trust.list()
    for _, path in ipairs(options.names(known)) do
        local _, message = trust.check(path)
        print(text.line(message or path))
    end
    return problem and fail(problem) or 0
end

local function remove(at)
    local was_trusted, message = trust.remove(at)
    if not was_trusted then
        return fail(message or at .. ": is not trusted")
    end
    return 0
end

local function add(at)
    local contents, message = trust.add(at)
    if not contents then
        return fail(message)
    end
    for _, name in ipairs(contents.names) do
        print(text.line(contents.path .. "/" .. name))
    end
    return 0
end

---@param arguments string[]
---@return integer status 0; 1 if the directory cannot be trusted; 2 for a usage error
function command.run(arguments)
    local opts, operands = args.parse("ponder trust", arguments, RULES)
    if not opts then
        return cli.usage_error(operands)
    elseif opts.list and (operands[1] or opts.remove) then
        return cli.usage_error("ponder trust: --list does not take a directory")
    elseif not opts.list and (not operands[1] or operands[2]) then
        return cli.usage_error("ponder trust: expected one directory: ponder trust ./prompts")
    elseif opts.list then
        return list()
    end
    return (opts.remove and remove or add)(operands[1])
end

return command
