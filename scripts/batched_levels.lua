--- A tree search in batches of levels, at half the price: a beam search over the lines of a poem.
---
---     ponder run --batch --detach scripts/batched_levels.lua --model openai:gpt-6-luna "the sea"
---     ponder resume
---
--- A level asks for the next lines of all kept poems, then for the grades of all that come of it:
--- one batch each, since a batch goes out once every task waits. Between two batches the process
--- need not run: --detach ends it, and ponder resume goes on once the batch has ended. Without
--- --batch the same calls are sent as usual.

local policy = require "ponder.policy"
local search = require "ponder.search"

local RULES = {
    lines = { value = "N", type = "integer", min = 1, max = 20, default = 4, help = "of the poem" },
    keep = { value = "N", type = "integer", min = 1, default = 10, help = "poems kept a level" },
    k = { value = "N", type = "integer", min = 1, default = 5, help = "next lines asked for each" },
}

local NEXT = "A poem on %s is to have %d lines. So far:\n%s\nWrite its next line. Answer with the "
    .. "line alone."
local GRADE = "A poem on %s:\n%s\nGrade it from 0 to 10. Answer with the number alone."

policy.main("batched_levels", { ... }, RULES, function(run)
    local theme, opts = table.concat(run.operands, " "), run.opts
    if theme == "" then run:fail("expected a theme, such as: the sea", 2) end
    local result, message = search.run {
        search = "beam", beam_width = opts.keep, batch = opts.keep, k = opts.k,
        concurrency = opts.keep * opts.k, -- so that no call of a level waits for another
        max_depth = opts.lines, initial_state = "",
        expand = function(poem)
            local poems, seen = {}, {}
            for _, text in ipairs(run:ask(NEXT:format(theme, opts.lines, poem), opts.k)) do
                local line = text:match "[^\r\n]+" or ""
                if not seen[line] then poems[#poems + 1] = poem .. line .. "\n" end
                seen[line] = true
            end
            return poems
        end,
        evaluate = function(poem)
            local reply = poem ~= "" and run:ask(GRADE:format(theme, poem))[1]
            return reply and tonumber(reply:match "%d+%.?%d*") or 0
        end,
        is_terminal = function(poem) return select(2, poem:gsub("\n", "")) == opts.lines end,
    }
    if not result then run:fail(message) end
    return run:report(result.answer, ("grade: %g"):format(result.score))
end, "THEME", "Writes a poem by a beam search whose levels are batches (ponder run --batch).")
