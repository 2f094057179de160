--- Counting keywords with a Graph of Thoughts, after Besta et al. 2023, "Graph of Thoughts: Solving
--- Elaborate Problems with Large Language Models": how often a text names each country.
---
---     ponder run scripts/keyword_counting.lua --model openai:gpt-6-luna --file article.txt
---     ponder run scripts/keyword_counting.lua --model script:scripts/models/countries.lua
---
--- `--method got` (the default) splits the text into parts of 4 sentences, counts 5 times in each
--- and keeps the best; merges neighbours 10 times and keeps the best, until one is left; and, if it
--- has mistakes, tries 10 times to improve it. `io`, `cot` and `tot` are the paper's baselines;
--- lua/ponder/operations/methods.lua has all four graphs. The score is the number of mistakes: for
--- each country below the difference to the true count, plus the counts of all other words.

local json = require "ponder.json"
local methods = require "ponder.operations.methods"
local policy = require "ponder.policy"

local COUNTRIES = { "Argentina", "Australia", "Brazil", "Canada", "China", "Egypt", "France",
    "Germany", "India", "Indonesia", "Italy", "Japan", "Kenya", "Mexico", "Norway", "Peru",
    "Poland", "Portugal", "Spain", "Sweden", "Turkey", "Vietnam" }

local TEXT = [[
The train left Spain at dawn and crossed into France before the fog had lifted. In Italy she bought
oranges that had come from Spain. Nobody from Norway was on board, although the conductor had once
lived in Norway and in Sweden. He spoke of Peru as others speak of childhood. From Italy the line
climbs, and Germany lies behind the mountains. Her brother wrote from Japan that Canada had been
colder than Norway. She had never seen Canada. In Poland the coaches were changed for wider wheels.
A merchant from Turkey sold maps of Egypt and of Kenya. The map of Egypt was older than France
itself, he said. She paid for it with money from Mexico. By evening they talked of India, of China
and again of Peru.]]

local COUNT = [[
Count how often each country is named in the text. %s

Example: "Chad is south of Libya. Libya is larger." -> {"Chad": 1, "Libya": 2}

Text: %s]]

local MERGE = [[
Add up two counts of countries. A country that is in one of them only keeps its number. Reply with
one JSON object alone.

Example: {"Chad": 1, "Libya": 2} and {"Libya": 1} -> {"Chad": 1, "Libya": 3}

First: %s
Second: %s]]

local IMPROVE = [[
The JSON object is an attempt to count how often each country is named in the text. It has mistakes.
Correct it. Reply with the corrected JSON object alone, on the last line.

Text: %s

Attempt: %s]]

-- How often each country is named.
local function count_in(text)
    local counts = {}
    for _, country in ipairs(COUNTRIES) do
        local _, n = text:gsub("%f[%a]" .. country .. "%f[%A]", "")
        counts[country] = n > 0 and n or nil
    end
    return counts
end

local function mistakes(counts, truth)
    local sum = 0
    for name, n in pairs(counts) do sum = sum + math.abs(n - (truth[name] or 0)) end
    for name, n in pairs(truth) do sum = sum + (counts[name] and 0 or n) end
    return sum
end

-- The last JSON object of a reply: names and whole numbers.
local function read(text)
    local object = text:match ".*(%b{})"
    local ok, counts = pcall(json.decode, object or "")
    local kept = {}
    for name, n in pairs(ok and type(counts) == "table" and counts or {}) do
        kept[name] = type(name) == "string" and math.type(n) == "integer" and n or nil
    end
    return { counts = kept }
end

-- Splits the text into parts of `size` sentences.
local function parts_of(text, size)
    local sentences = {}
    for sentence in text:gmatch "[^.]+%.?%s*" do sentences[#sentences + 1] = sentence end
    local parts = policy.split(sentences, size)
    for i, part in ipairs(parts) do parts[i] = { text = table.concat(part) } end
    return parts
end

-- A state has a part of the text and, once counted, the counts by country.
local function task_for(text, opts)
    local function prompt(how)
        return function(s) return COUNT:format(how, s.text) end
    end
    return {
        name = "keyword counting", start = { text = text }, tries = opts.tries,
        solve = prompt "Reply with a JSON object alone.",
        think = prompt "Go through it sentence by sentence; the JSON object is the last line.",
        improve = function(s) return IMPROVE:format(s.text, json.encode(s.counts)) end,
        merge = function(s)
            return MERGE:format(json.encode(s[1].counts), json.encode(s[2].counts))
        end,
        read = read,
        mistakes = function(s) return mistakes(s.counts, count_in(s.text)) end,
        split = function(s) return parts_of(s.text, opts.part) end,
        join = function(s) return { text = s[1].text .. s[2].text } end,
    }
end

policy.main("keyword_counting", { ... }, {
    file = { value = "FILE", help = "a text; default: one of 13 sentences" },
    part = { value = "N", type = "integer", min = 1, default = 4, help = "sentences in each part" },
    tries = { value = "N", type = "integer", min = 1, default = 5, help = "counts of each part" },
    method = { value = "METHOD", enum = methods.names, default = "got",
        help = "io, cot, tot or got" },
}, function(run)
    if run.operands[1] then run:fail("unexpected argument " .. run.operands[1], 2) end
    local text = run.opts.file and run:read_file(run.opts.file) or TEXT
    local best = run:graph(methods.graph(run.opts.method, task_for(text, run.opts)))
    return run:report(json.encode(best.state.counts), ("mistakes: %d"):format(best.score))
end, nil, "Counts how often a text names each country.")
