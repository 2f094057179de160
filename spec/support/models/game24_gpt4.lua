-- A model for scripts/game24_tot.lua that replays replies of GPT-4: the steps that it proposed,
-- and how it valued them, for five puzzles. They come from logs of the paper's authors
-- (princeton-nlp/tree-of-thought-llm, Copyright (c) 2023 Shunyu Yao, MIT licence).

local json = require "ponder.json"

local steps_from, value_of, answer_to, value_of_answer = {}, {}, {}, {}

-- What is left after a path of steps; the puzzle itself at its beginning.
local function left_after(path, puzzle)
    return path:match(".*%(left: ([^)]*)%)") or puzzle
end

local function learn(record)
    for level, step in ipairs(record.steps) do
        for i, path in ipairs(step.beam) do
            local left = left_after(path, record.puzzle)
            local lines = {}
            for at, child in ipairs(step.children[i]) do
                lines[at] = child[1]:gsub("%s+$", "")
                if level <= 3 then
                    local after = left_after(lines[at], record.puzzle)
                    value_of[after] = math.max(value_of[after] or 0, child[2])
                else
                    local answer = lines[at]:match("Answer: (.*)")
                    answer_to[record.puzzle .. "\n" .. path] = lines[at]
                    value_of_answer[record.puzzle .. "\n" .. (answer or "")] = child[2]
                end
            end
            if level <= 3 and not steps_from[left] then
                steps_from[left] = table.concat(lines, "\n")
            end
        end
    end
end

for line in io.lines("spec/fixtures/game24_gpt4.jsonl") do learn(json.decode(line)) end

-- Three replies whose values have this sum.
local function verdicts(sum)
    local texts = {}
    for _, one in ipairs { { "sure", 20 }, { "likely", 1 }, { "impossible", 0.001 } } do
        while #texts < 3 and sum >= one[2] - 1e-9 do
            texts[#texts + 1] = "Some thoughts.\n" .. one[1]
            sum = sum - one[2]
        end
    end
    while #texts < 3 do texts[#texts + 1] = "I cannot say" end
    return texts
end

return function(request)
    local prompt, usage = request.messages[1].content, { input_tokens = 300, output_tokens = 30 }
    local puzzle, rest = prompt:match("\nNumbers: ([%d ]+)\nSteps:\n(.*)$")
    if puzzle then
        return { text = answer_to[puzzle .. "\n" .. rest .. "\n"] or "?", usage = usage }
    end
    puzzle, rest = prompt:match("\nNumbers: ([%d ]+)\nAnswer: (.*)$")
    if puzzle then
        return { texts = verdicts(value_of_answer[puzzle .. "\n" .. rest] or 0), usage = usage }
    end
    local valued = prompt:match("\n([^\n]*):$")
    if valued then
        return { texts = verdicts(value_of[valued] or 0), usage = usage }
    end
    return { text = steps_from[prompt:match("\nNumbers: ([^\n]*)$")] or "?", usage = usage }
end
