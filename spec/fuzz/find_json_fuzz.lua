-- Texts with JSON in them: the parts found are in order, disjoint and balanced, and equal the text,
-- except that blanks replace commas.

local find_json = require "ponder.parse.find_json"

local SEEDS = { 'Thoughts: ["a", "b",]\n{"k": [1, {"x": true}], }', '[[[1], [2,]]] and {"a" "b"}',
    '```json\n{"thoughts": [{"content": "\\"quoted\\" [1]"}]}\n```' }

local CLOSING = { ["["] = "]", ["{"] = "}" }
local POSITIONS = { alone = true, introduced = true, inline = true }

local function try(text)
    local from = 1
    local parts, positions = find_json(text)
    for i, part in ipairs(parts) do
        assert(CLOSING[part:sub(1, 1)] == part:sub(-1), "a part without its brackets")
        assert(POSITIONS[positions[i]], "a part without a position")
        local pattern = part:gsub("[^%w ]", function(c)
            return c == "\0" and "%z" or "%" .. c
        end):gsub(" ", "[ ,]")
        local first, last
        if #pattern < 5000 then -- a longer one is too complex
            first, last = text:find(pattern, from)
            assert(first and last - first + 1 == #part, "a part that is not in the text")
        end
        from = (last or from - 1) + 1
    end
end

return { seeds = SEEDS, try = try }
