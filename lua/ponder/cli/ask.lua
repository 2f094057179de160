--- `ponder ask QUESTION`: chain of thought, by a vote if asked; with `--strategy FILE` a custom
--- strategy, with the flags of `ponder tot`.

local args = require "ponder.args"
local cli = require "ponder.cli.shared.main"
local command = require "ponder.cli.shared.command"
local options = require "ponder.base.options"
local strategy = require "ponder.strategy"

local RULES = args.collect {
    { "strategy", value = "FILE", files = true,
        help = "Lua file that returns ponder.strategy.new{...} (default: chain of thought)" },
}

local SUMMARY = "answer a question, by a vote or your own strategy"
local ABOUT = [[
Answers step by step, as ponder cot does; with --n 40 that many samples vote, with --stop-at 0.95 as
few of them as it takes to be that sure. Or it answers with the strategy that FILE returns
(ponder.strategy), whose own options are flags as well: ponder ask --strategy FILE --help.]]

local ask = command.of("ask", strategy.named "cot", { summary = SUMMARY, about = ABOUT }, RULES)
local answer = ask.run
ask.files, ask.own_help = true, true

-- The value of --strategy, if given.
local function strategy_of(arguments)
    for i, argument in ipairs(arguments) do
        if argument == "--" then
            return nil
        elseif argument == "--strategy" then
            return arguments[i + 1] or ""
        elseif argument:find "^%-%-strategy=" then
            return argument:match "=(.*)$"
        end
    end
end

---Parses nothing: the strategy's own flags are not known yet.
function ask.parse(_, list)
    return {}, list
end

function ask.run(_, arguments)
    local path, own = strategy_of(arguments), options.merge({}, ask)
    own.parse, own.run, own.own_help = nil, answer, nil
    if path then
        cli.expect(path ~= "", "expected a strategy: ponder ask --strategy FILE QUESTION")
        local library = cli.need(strategy.load(path))
        own = command.of("ask", library, { summary = library.summary or SUMMARY,
            about = library.about or library.summary or ABOUT,
            call = "ask --strategy " .. path }, RULES)
    end
    for _, argument in ipairs(arguments) do
        if argument == "--help" then
            print(cli.usage_of("ask", own))
            return 0
        end
    end
    return cli.call("ask", own, arguments)
end

return ask
