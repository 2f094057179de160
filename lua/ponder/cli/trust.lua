--- `ponder trust`: directories of prompt files that may be used without being named.

local cli = require "ponder.cli.shared.main"
local options = require "ponder.base.options"
local text = require "ponder.show.text"
local trust = require "ponder.think.prompt.trust"

local command = cli.command({ files = true }, {
    { "list", help = "list the trusted directories" },
    { "remove", help = "stop trusting DIR" },
})

command.summary = "use the prompt files of a directory without naming it each time"

command.about = [[
ponder trust [OPTION...] [DIR]

Prompt files in ./prompts are used only if --prompts or $PONDER_PROMPTS names that directory, or
after `ponder trust ./prompts`. Trust ends when one of the directory's Lua files changes; it
requires that you own the directory and its files and that nobody else may write them. The list of
trusted directories is in $XDG_STATE_HOME/ponder.]]

function command.run(opts, operands)
    local at = operands[1]
    cli.refuse(opts.list and (at or opts.remove) and "--list does not take a directory"
        or not opts.list and (not at or operands[2])
        and "expected one directory: ponder trust ./prompts")
    if opts.list then
        local known, problem = trust.list()
        for _, path in ipairs(options.names(known)) do
            local _, message = trust.check(path)
            print(text.line(message or path))
        end
        return problem and 1 or 0, problem
    elseif opts.remove then
        local was_trusted, message = trust.remove(at)
        cli.need(was_trusted, message or at .. ": is not trusted", not message and "NOT_FOUND")
        return 0
    end
    local contents = cli.need(trust.add(at))
    for _, name in ipairs(contents.names) do
        print(text.line(contents.path .. "/" .. name))
    end
    return 0
end

return command
