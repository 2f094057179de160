--- `ponder ask --strategy FILE QUESTION`: a custom strategy, with the flags of `ponder tot`.

local args = require "ponder.args"
local cli = require "ponder.cli.shared.main"
local command = require "ponder.cli.shared.command"
local strategy = require "ponder.strategy"

local RULES = args.collect {
    { "strategy", value = "FILE", files = true,
        help = "Lua file that returns ponder.strategy.new{...}" },
}

local SUMMARY = "answer a question with your own strategy"
local ABOUT = [[
Answers with the strategy that FILE returns (ponder.strategy). Its own options are flags as well:
ponder ask --strategy FILE --help lists them.]]

-- A strategy without options has the flags that all strategies have.
local ask = command.of("ask", strategy.new { name = "ask", roles = { "generate" },
    run = function() end }, { summary = SUMMARY, about = ABOUT,
    call = "ask --strategy FILE" }, RULES)
ask.files, ask.own_help = true, true

-- The value of --strategy, if given.
local function strategy_of(arguments)
    for i, argument in ipairs(arguments) do
        if argument == "--" then
            return nil
        elseif argument == "--strategy" then
            return arguments[i + 1]
        elseif argument:find "^%-%-strategy=" then
            return argument:match "=(.*)$"
        end
    end
end

---Parses nothing: the strategy's own flags are not known yet.
function ask.parse(_, list)
    return {}, list
end

---See ponder.cli.shared.main.
function ask.run(_, arguments)
    local path = cli.expect(strategy_of(arguments),
        "expected a strategy: ponder ask --strategy FILE QUESTION")
    local library = cli.need(strategy.load(path))
    local own = command.of("ask", library, { summary = library.summary or SUMMARY,
        about = library.about or library.summary or ABOUT,
        call = "ask --strategy " .. path }, RULES)
    for _, argument in ipairs(arguments) do
        if argument == "--help" then
            print(cli.usage_of("ask", own))
            return 0
        end
    end
    return cli.call("ask", own, arguments)
end

return ask
