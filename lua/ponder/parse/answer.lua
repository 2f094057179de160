--- Finds the answer in a model's reply, and makes keys by which answers are compared. Used by chain
--- of thought, ensembles, evaluations and strategies.
---
--- A reply marks its answer as `<answer>...</answer>`, `\boxed{...}`, a section `Answer:` or a line
--- `#### ...`. The first kind that occurs counts, and of that kind the last mark.

local critique = require "ponder.parse.critique"
local quote = require "ponder.quote"

local answer = {}

local TAIL_BYTES = 20000 -- the part of a reply that is searched

-- Removes spaces and markup around an answer. Each pattern takes linear time.
local function trim(text)
    local _, last = text:find("^.*[^%s*_`]")
    return (text:sub(1, last or 0):gsub("^[%s*_`#>-]+", ""))
end

-- The rest of the line after the last "answer is" or "Answer:", in any case.
local function stated(text)
    local found
    for line in text:gmatch("[^\r\n]+") do
        local lower = line:lower()
        for after in lower:gmatch("%f[%a]answer()") do
            local rest = lower:match("^[%s*_]+is%f[%A][%s*_]*:?()", after)
                or lower:match("^[%s*_]*[:=]()", after)
            local trimmed = rest and trim(line:sub(rest)) or ""
            found = trimmed ~= "" and trimmed or found
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

-- The contents of an answer that is only a box.
local function unboxed(text)
    local group = text:match("^%$*%s*\\boxed(%b{})%s*%$*%.?$")
    return group and trim(group:sub(2, -2)) or text
end

---The answer to show: the marked part of the reply, which may have several lines, else all of it.
---@param text string
---@return string answer
---@return boolean is_marked
function answer.read(text)
    local tail = text:sub(-TAIL_BYTES)
    local element = critique.answer_element(text)
    local found = element and unboxed(element) or boxed(tail) or critique.answer(text)
        or hashed(tail)
    return found or quote.trim(text), found ~= nil
end

---The answer to compare with others: in `<answer>`, or else in the whole reply, the last
---`\boxed{...}`, else the text after the last "the answer is" or "Answer:" on its line, or "####",
---else the last line.
---@param text string
---@return string? answer nil for an empty reply
function answer.extract(text)
    text = (critique.answer_element(text) or text):sub(-TAIL_BYTES)
    return boxed(text) or stated(text) or hashed(text) or last_line(text)
end

---A key that equal answers share: ignores case, surrounding spaces, quotes, emphasis and a full
---stop, and compares numbers by value (`$1,200.` and `1200.0` are equal).
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
