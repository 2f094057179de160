--- Finds the answer in a model's reply, and gives equal answers equal keys: for chain of thought,
--- ensembles, evaluations and strategies alike.
---
--- A reply marks its answer as `<answer>...</answer>`, `\boxed{...}`, a section `Answer:` or a line
--- `#### ...`, the first of these that it has; the last one of a kind counts.

local critique = require "ponder.parse.critique"
local quote = require "ponder.quote"

local answer = {}

local NEAR_END = 20000 -- bytes of a reply that are looked at

-- Without what stands around an answer. Each pattern here is linear in the text.
local function trim(text)
    local _, last = text:find("^.*[^%s*_`]")
    return (text:sub(1, last or 0):gsub("^[%s*_`#>-]+", ""))
end

-- What stands after the last "answer is" or "Answer:", in any case, to the end of its line.
local function stated(text)
    local found
    for line in text:gmatch("[^\r\n]+") do
        local lower = line:lower()
        for after in lower:gmatch("%f[%a]answer()") do
            local rest = lower:match("^[%s*_]+is%f[%A][%s*_]*:?()", after)
                or lower:match("^[%s*_]*[:=]()", after)
            local said = rest and trim(line:sub(rest)) or ""
            found = said ~= "" and said or found
        end
    end
    return found
end

local function boxed(text)
    local found
    for group in text:gmatch("\\boxed(%b{})") do
        local inner = trim(group:sub(2, -2))
        found = inner ~= "" and inner or found
    end
    return found
end

local function last_line(text)
    local found
    for line in text:gmatch("[^\r\n]+") do
        local trimmed = trim(line)
        found = trimmed ~= "" and trimmed or found
    end
    return found
end

local function hashed(text)
    local found = ("\n" .. text):match("^.*\n####%s*([^\r\n]+)")
    found = found and trim(found)
    return found ~= "" and found or nil
end

-- An answer that is nothing but a box is what the box holds.
local function unboxed(text)
    local group = text:match("^%$*%s*\\boxed(%b{})%s*%$*%.?$")
    return group and trim(group:sub(2, -2)) or text
end

---The answer to hand to a person: what the reply marks, which may be several lines, else all of it.
---@param text string
---@return string answer
---@return boolean is_marked
function answer.read(text)
    local near_end = text:sub(-NEAR_END)
    local element = critique.answer_element(text)
    local found = element and unboxed(element) or boxed(near_end) or critique.answer(text)
        or hashed(near_end)
    return found or quote.trim(text), found ~= nil
end

---The answer to compare with others: within what `<answer>` marks or the whole reply the last
---`\boxed{...}`, else what follows the last "the answer is" or "Answer:" on its line, or "####",
---else the last line.
---@param text string
---@return string? answer nil for an empty reply
function answer.extract(text)
    text = (critique.answer_element(text) or text):sub(-NEAR_END)
    return boxed(text) or stated(text) or hashed(text) or last_line(text)
end

---One key for the ways to write an answer: without case, surrounding spaces, quotes, emphasis and a
---full stop; numbers by their value (`$1,200.` and `1200.0` are equal).
---@param text string
---@return string
function answer.normalize(text)
    local _, last = text:find("^.*[^%s\"'*_`)$.!]")
    local key = text:sub(1, last or 0):lower():gsub("^[%s\"'*_`($]+", ""):gsub("%s+", " ")
    local digits = key:gsub("(%d),(%d%d%d)%f[%D]", "%1%2"):gsub("(%d),(%d%d%d)%f[%D]", "%1%2")
    local number = digits:find("^[-+]?[%d.]+$") and tonumber(digits)
    return number and ("%.14g"):format(number) or key
end

return answer
