--- Merging documents with a Graph of Thoughts, after Besta et al. 2023, "Graph of Thoughts: Solving
--- Elaborate Problems with Large Language Models": several agreements into one, without repetition
--- or loss.
---
---     ponder run scripts/document_merging.lua --model openai:gpt-6-luna a.txt b.txt c.txt
---     ponder run scripts/document_merging.lua --model script:scripts/models/agreements.lua
---
---     io    one reply                          cot   one reply that makes an outline first
---     tot   the best of 10 merges, then the best of 10 improvements of it
---     got   the best 3 of 5 merges; the best of 5 merges of these; the best of 10 improvements
---
--- A model judges the result: it grades each document 3 times, from 0 to 10, for how little it
--- repeats and how much it retains; the score is the harmonic mean of the two means.

local operations = require "ponder.operations"
local policy = require "ponder.policy"
local strategy = require "ponder.strategy"

local DOCUMENTS = {
    "Either party may share business plans with the other. The receiving party keeps them secret "
        .. "for three years. They may be used for the joint project only.",
    "The receiving party keeps shared information secret for three years. Copies are returned or "
        .. "destroyed when the project ends. The law of Norway applies.",
    "Information that is public, or was known before, is not protected. The law of Norway "
        .. "applies. Employees may see it if they need it for the project.",
    "A breach is paid with a penalty of 10,000 crowns. Copies are returned or destroyed when the "
        .. "project ends. Disputes go to the court of Bergen.",
}

local MERGE = [[
Merge these agreements into one. Keep every provision, and say each only once. %s

%s]]

local AGGREGATE = [[
Each of these is an attempt to merge the same agreements into one. Combine what is best in them into
one agreement that keeps every provision and says each only once. Reply with the agreement between
<merged> and </merged>.

%s]]

local IMPROVE = [[
The last document is an attempt to merge the agreements before it into one. Improve it: add what it
lost, remove what it repeats. Reply with the improved agreement between <merged> and </merged>.

%s

<attempt>
%s
</attempt>]]

local GRADE = [[
Grade how well the last document merges the agreements before it, with two numbers from 0 to 10: how
little it repeats (10: nothing), and how much of their provisions it retains (10: all). Reply with
two lines:
Redundancy: N
Retained: N

%s

<attempt>
%s
</attempt>]]

local function listed(documents, tag)
    local list = {}
    for i, text in ipairs(documents) do
        list[i] = ("<%s %d>\n%s\n</%s %d>"):format(tag, i, text, tag, i)
    end
    return table.concat(list, "\n\n")
end

local function read(_, replies)
    local updates = {}
    for i, text in ipairs(replies) do
        updates[i] = { merged = text:match "<merged>%s*(.-)%s*</merged>" or text }
    end
    return updates
end

local function mean_grade(replies, name)
    local sum, count = 0, 0
    for _, text in ipairs(replies) do
        local grade = strategy.read_grade(text, name, 10)
        if grade then sum, count = sum + 10 * grade, count + 1 end
    end
    return count > 0 and sum / count or 0
end

local function graph(method, documents)
    local agreements = listed(documents, "agreement")
    local g = operations.new { name = "merge agreements", start = { documents = documents } }

    local function merge(responses, how)
        return g:generate { responses = responses, parse = read, prompt = function()
            return MERGE:format((how or "")
                .. "Reply with the agreement between <merged> and </merged>.", agreements)
        end }
    end
    local function keep_best(n, ...)
        local after = { ... }
        after[#after] = g:score { after = { after[#after] }, samples = 3, prompt = function(states)
            return GRADE:format(agreements, states[1].merged)
        end, parse = function(_, replies)
            local a, b = mean_grade(replies, "redundancy"), mean_grade(replies, "retained")
            return { a + b > 0 and 2 * a * b / (a + b) or 0 }
        end }
        return g:keep_best { after = after, n = n }
    end
    local function improve(best)
        keep_best(1, best, g:generate { after = { best }, responses = 10, parse = read,
            prompt = function(state) return IMPROVE:format(agreements, state.merged) end })
    end

    if method == "io" or method == "cot" then
        keep_best(1, merge(1, method == "cot" and "Make an outline first. " or nil))
    elseif method == "tot" then
        improve(keep_best(1, merge(10)))
    else
        local best = keep_best(3, merge(5))
        improve(keep_best(1, best, g:aggregate { after = { best }, responses = 5, parse = read,
            prompt = function(states)
                local attempts = {}
                for i, state in ipairs(states) do attempts[i] = state.merged end
                return AGGREGATE:format(listed(attempts, "attempt"))
            end }))
    end
    return g
end

policy.main("document_merging", { ... }, {
    method = { value = "METHOD", enum = { "io", "cot", "tot", "got" }, default = "got",
        help = "io, cot, tot or got" },
}, function(run)
    local documents = {}
    for i, path in ipairs(run.operands) do documents[i] = run:read_file(path) end
    if #documents == 1 then run:fail("expected at least two files, or none", 2) end
    local best = run:graph(graph(run.opts.method, documents[1] and documents or DOCUMENTS))
    return run:report(best.state.merged, ("score: %.2f of 10"):format(best.score))
end, "[FILE FILE...]", "Merges documents into one, without repetition or loss.")
