--- Writes an evaluation for a data set as OpenAI's Evals and inspect_ai have them: a prompt
--- (`input`: a text or messages), the right answer (`ideal`, `target`), perhaps `choices`.

local literal = require "ponder.judge.import.literal"
local options = require "ponder.base.options"
local sets = require "ponder.data"

local QUESTIONS = { "input", "question", "prompt", "problem" }
local TARGETS = { "ideal", "target", "answer", "expected", "ground_truth", "reference", "label" }

local DATA = [[
-- The rows as items%s.
local function data(load)
    local list, message = load(%s)
    for i, row in ipairs(list or {}) do
        %s
        list[i] = row
    end
    return list, message
end

]]
local UNWRAP = 'row = row.item or row\n        '
local SPLIT = [[if type(row.choices) == "string" then
            local choices = {}
            for choice in row.choices:gmatch "[^,]+" do
                choices[#choices + 1] = choice:match "^%s*(.-)%s*$"
            end
            row.choices = choices
        end
        ]]

local CHOICES = [[
local function prompt(item)
    local lines = { item%s, "" }
    for i, choice in ipairs(item.choices) do
        lines[#lines + 1] = ("%%s) %%s"):format(("ABCDEFGHIJKLMNOPQRSTUVWXYZ"):sub(i, i), choice)
    end
    lines[#lines + 1] = "\nEnd with one line: ANSWER: and the letter."
    return table.concat(lines, "\n")
end

]]
local SCORE = [[
-- Whether the answer %s the target, or one of a list of them,
-- %s.
local function score(_, answer, target)
    for _, one in ipairs(type(target) == "table" and target or { target }) do
        if %s then
            return true
        end
    end
    return false
end

]]

local function first_field(names, rows)
    for _, name in ipairs(names) do
        local count = 0
        for _, row in ipairs(rows) do
            count = count + (row[name] ~= nil and 1 or 0)
        end
        if count == #rows then return name end
    end
end

---@param reference string its name for the evaluation, relative to that
---@return string? lua an evaluation, without the comment at its head
return function(path, reference)
    local rows, message = sets.load(path)
    if not rows or type(rows[1]) ~= "table" then
        return nil, message or path .. ": expected rows with names"
    end
    local is_wrapped, seen, repeated = type(rows[1].item) == "table", {}, false
    for i, row in ipairs(rows) do
        rows[i] = is_wrapped and type(row.item) == "table" and row.item or row
    end
    local question, target = first_field(QUESTIONS, rows), first_field(TARGETS, rows)
    if not question or not target then
        return nil, ("%s: no field of all rows is one of %s; there are %s: name them in Lua "
            .. "(ponder init eval: question, target)"):format(path, table.concat(question
            and TARGETS or QUESTIONS, ", "), table.concat(options.names(rows[1]), ", "))
    end
    for _, row in ipairs(rows) do
        local key = literal.of(row)
        repeated, seen[key] = repeated or seen[key] or false, true
    end
    local has_choices = first_field({ "choices" }, rows) ~= nil
    local steps = (is_wrapped and UNWRAP or "") .. (has_choices and SPLIT or "")
        .. (repeated and "row.id = row.id or i" or "")
    local lua = steps == "" and "" or DATA:format(repeated and "; equal ones get numbers as ids"
        or "", literal.of(reference), (steps:gsub("%s+$", "")))
    if has_choices then
        lua = lua .. CHOICES:format("." .. question)
    elseif target == "ideal" then
        lua = lua .. SCORE:format("begins with", "as Match of OpenAI's Evals; Includes: "
            .. "answer:find(one, 1, true)", "answer:sub(1, #tostring(one)) == tostring(one)")
    else
        lua = lua .. SCORE:format("contains", "in any case, as includes() of inspect_ai",
            "answer:lower():find(tostring(one):lower(), 1, true)")
    end
    return lua
        .. "local flags = ... or {} -- of the command line: flags.model is --model\n\nreturn "
        .. literal.of { name = reference:match "[^/]*$", target = target,
            data = steps ~= "" and literal.code "data" or reference,
            policies = { io = { model = literal.code "flags.model", prompt = literal.code(
                has_choices and "prompt" or ("function(item) return item.%s end"):format(question))
            } }, score = has_choices and "choice" or literal.code "score" } .. "\n", {}
end
