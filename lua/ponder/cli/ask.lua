--- `ponder ask --strategy FILE QUESTION`: a custom strategy, with the flags of `ponder tot`.

local args = require "ponder.args"
local cli = require "ponder.cli"
local command = require "ponder.cli.shared.command"
local strategy = require "ponder.strategy"

local RULES = {
    strategy = { value = "FILE", files = true,
        help = "Lua file that returns ponder.strategy.new{...}" },
}

local SUMMARY = "answer a question with your own strategy"
local ABOUT = [[
Answers with the strategy that FILE returns (ponder.strategy). Its own options are flags as well:
ponder ask --strategy FILE --help lists them.]]

-- A strategy without options has the flags that all strategies have.
local plain = command.of("ask", strategy.new { name = "ask", roles = { "generate" },
    run = function() end }, { summary = SUMMARY, about = ABOUT,
    call = "ask --strategy FILE" }, RULES)

local ask = { summary = SUMMARY, about = plain.about, rules = plain.rules,
    sections = plain.sections, files = true, own_help = true }

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

---@param arguments string[]
---@return integer status as of ponder tot
function ask.run(arguments)
    local path = strategy_of(arguments)
    if not path then
        return cli.usage_error(
            "ponder ask: expected a strategy: ponder ask --strategy FILE QUESTION")
    end
    local library, message = strategy.load(path)
    if not library then
        return cli.fail("ponder ask", message)
    end
    local own = command.of("ask", library, { summary = library.summary or SUMMARY,
        about = library.about or library.summary or ABOUT,
        call = "ask --strategy " .. path }, RULES)
    for _, argument in ipairs(arguments) do
        if argument == "--help" then
            print(args.usage(own.about, own.rules, own.sections))
            return 0
        end
    end
    return own.run(arguments)
end

return ask
