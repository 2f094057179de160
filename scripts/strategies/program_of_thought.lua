--- Program of thoughts, after Chen et al. 2023, "Program of Thoughts Prompting: Disentangling
--- Computation from Reasoning for Numerical Reasoning Tasks".
---
---     ponder ask --strategy scripts/strategies/program_of_thought.lua --samples 5 "..."
---
--- The model writes a Lua program, and ponder.sandbox runs it, with limits and only Lua's pure
--- library; the log keeps the result. A program that fails is returned to the model with its error.
--- With several samples, the most frequent result is the answer.

local log = require "ponder.log"
local sandbox = require "ponder.sandbox"
local strategy = require "ponder.strategy"
local task = require "ponder.task"

local prompts = {}

function prompts.program(context)
    local parts = { context:quote("problem", context.question) }
    if context.program then
        parts[2] = context:quote("program", context.program)
        parts[3] = "It failed: " .. context:quote("error", context.problem) .. "\nCorrect it."
    end
    return {
        { role = "system", content = context.instructions or "Write a program in Lua 5.4 that "
            .. "computes the answer to the problem, with names that say what they stand for, and "
            .. "returns it. It has Lua's pure library and nothing else. Reply with one block of "
            .. "code between ```lua and ```." },
        { role = "user", content = table.concat(parts, "\n\n") },
    }
end

local function read_program(text)
    return text:match "```%w*[ \t]*\n(.-)```" or text
end

-- The text of a result, whole numbers without a decimal point; nil if it is not an answer.
local function show(value)
    if type(value) == "number" then
        return ("%s"):format(math.tointeger(value) or value)
    end
    return (type(value) == "string" or type(value) == "boolean") and tostring(value) or nil
end

-- Asks for one program and runs it; its result as text, or nil.
local function solve(thinker, question)
    local opts, last, program, problem = thinker.options, 1, nil, nil
    for _ = 0, opts.repairs do
        program = read_program(thinker:prompt("program", { question = question, program = program,
            problem = problem }, { node = last }))
        local value, message = log.record("program", program, sandbox.run, program,
            { timeout_ms = opts.program_timeout_ms, memory_mb = opts.program_memory_mb })
        local result = show(value)
        problem = result == nil and (message or "it returned no number and no text") or nil
        last = thinker:node { text = ("%s\n-> %s"):format(program, result or problem),
            parents = { last }, score = result and 1 or 0 }
        if result then
            return { answer = result, node = last }
        end
    end
    return { failed = problem }
end

return strategy.new {
    name = "program_of_thought",
    summary = "have the model write a program, and run it",
    roles = { "program" },
    prompts = prompts,
    counted = { "program", "programs" },
    options = {
        samples = { type = "integer", min = 1, max = 1000, default = 1,
            help = "number of programs; the most frequent result wins" },
        repairs = { type = "integer", min = 0, max = 100, default = 2,
            help = "repair attempts for each program that fails" },
        program_timeout_ms = { type = "integer", min = 1, default = 2000,
            help = "time limit for each program" },
        program_memory_mb = { type = "integer", min = 1, default = 64,
            help = "memory limit for each program, in MiB" },
    },

    run = function(thinker, question)
        local samples, votes, best, failed = {}, {}, nil, nil
        for i = 1, thinker.options.samples do
            samples[i] = i
        end
        for _, one in ipairs(task.map(samples, function() return solve(thinker, question) end)) do
            failed = failed or one.failed
            if one.answer then
                votes[one.answer] = (votes[one.answer] or 0) + 1
                if not best or votes[one.answer] > votes[best.answer] then
                    best = one
                end
            end
        end
        if not best then
            return nil, "no program ran: " .. failed, "BAD_REPLY"
        end
        thinker:best(best.node, best.answer)
        return best.answer
    end,
}
