--- Scorers say whether an answer is right, or how good it is.
---
---     score = score.numeric                       -- as it is
---     score = score.numeric { tolerance = 0.01 }  -- with options
---     score = "exact"                             -- by name
---     score = score.all { "contains", score.regex { pattern = "^[0-9]+$" } }
---
--- A scorer is called with (item, answer, target, took), where `took` is what the run asked: cost,
--- calls, tokens, samples, seconds, critical_seconds. It returns true, false or a number (1 is
--- right, higher is better), then a reason; or nil, message, code if it cannot score. It may wait.
--- A plain function with this signature is also a scorer.
---
--- | scorer      | options with defaults, and what it checks                                     |
--- |-------------|-------------------------------------------------------------------------------|
--- | exact       | the answer is the target; of a list, one of the targets                       |
--- | normalized  | the same without case, quotes, emphasis, a full stop; numbers by their value  |
--- | numeric     | tolerance 0, relative 1e-9: the number of the answer is near the target       |
--- | regex       | pattern (the target), ignore_case false: a POSIX extended expression matches  |
--- | choice      | choices (item.choices): the answer names the target's letter                  |
--- | contains    | case false: the answer contains the target; of a list, all of them            |
--- | json_schema | schema (the target): the answer is JSON that fits                             |
--- | command     | command, input "answer" or "json", timeout_ms 10000, max_output_bytes 65536,  |
--- |             | env, cwd: a program that gets the answer on its standard input ends with 0    |
--- | model       | rubric, model, votes 1, against "rubric" or "target": a model judges          |
--- | checks      | checks, model, embedder: what must hold for all items, and `checks` of each:  |
--- |             | see ponder.eval.checks                                                        |
--- | all, any    | a list of scorers: the lowest, or the highest, of their scores                |

local answers = require "ponder.think.parse.answer"
local checks = require "ponder.eval.checks"
local json = require "ponder.json"
local judge = require "ponder.judge.eval.judge"
local options = require "ponder.base.options"
local schemas = require "ponder.model.schema"
local text = require "ponder.judge.eval.text"

local score = {}

---@alias ponder.eval.Measure fun(item: ponder.eval.Item, answer: any, target: any, took: table):
---(boolean|number|nil), string?, string?

---@class ponder.eval.Scorer a function of an item, an answer and a target; called with a table of
---options, it returns a scorer with these options
---@field name string
---@field opts table
---@field private kind table {name, rules, measure, prepare}
local Scorer = {}
Scorer.__index = Scorer
Scorer.__name = "ponder.eval.Scorer"

-- Makes a scorer with options; errors name the line that called it.
local function configure(kind, opts, level)
    local where = "eval.score." .. kind.name
    opts = options.check(where, opts, kind.rules, level + 1)
    if kind.prepare then
        local problem = kind.prepare(opts)
        if problem then
            error(("%s: %s"):format(where, problem), level + 1)
        end
    end
    return setmetatable({ name = kind.name, opts = opts, kind = kind }, Scorer)
end

function Scorer:__call(...)
    if select("#", ...) <= 1 then
        local made = configure(self.kind, (...), 2) -- no tail call: errors name the caller
        return made
    end
    return self.kind.measure(self.opts, ...)
end

---The scoring function of a scorer, given by name, as a function or as a table with `measure`; or
---nil and a message.
---@param value any
---@return ponder.eval.Measure?
---@return string? message
---@package
function score.resolve(value)
    if type(value) == "function" or getmetatable(value) == Scorer then
        return value
    elseif type(value) == "table" and type(value.measure) == "function" then
        return value.measure
    elseif type(value) ~= "string" then
        return nil, ("must be a function or a scorer's name (got %s)"):format(options.show(value))
    end
    local names = options.names(score, function(_, scorer)
        return getmetatable(scorer) == Scorer
    end)
    local found = getmetatable(score[value]) == Scorer and score[value]
    local near = options.nearest(value, names)
    return found or nil, not found and ("must be one of %s (got %s%s)"):format(
        table.concat(names, ", "), options.show(value),
        near and ("; did you mean %s?"):format(near) or "") or nil
end

local function define(name, rules, measure, prepare)
    local defaults = {}
    for option, rule in pairs(rules) do
        defaults[option] = rule.default
    end
    score[name] = setmetatable({ name = name, opts = defaults, kind = { name = name, rules = rules,
        measure = measure, prepare = prepare } }, Scorer)
end

-- Defines a scorer that needs a target.
local function define_with_target(name, rules, measure)
    define(name, rules, function(opts, item, answer, target)
        if target == nil then
            return nil, "the item has no target", "NO_TARGET"
        end
        return measure(opts, item, answer, target)
    end)
end

local function expected(target)
    return "expected " .. text.of(target)
end

-------------------------------------------------------------------------------
-- Texts

-- Whether `same` holds for the target, or for one of a list of them.
local function any_target(target, same)
    if type(target) ~= "table" or target[1] == nil then
        return same(target)
    end
    for _, one in ipairs(target) do
        if same(one) then
            return true
        end
    end
    return false
end

define_with_target("exact", {}, function(_, _, answer, target)
    local given = text.of(answer)
    local right = given == text.of(target) or any_target(target, function(one)
        return given == text.of(one)
    end)
    return right, not right and expected(target) or nil
end)

define_with_target("normalized", {}, function(_, _, answer, target)
    local given = text.of(answer)
    local keys = { [answers.normalize(given)] = true,
        [answers.normalize(answers.read(given) or "")] = true }
    local right = any_target(target, function(one)
        return keys[answers.normalize(text.of(one))] == true
    end)
    return right, not right and expected(target) or nil
end)

define_with_target("contains", { case = { type = "boolean", default = false } },
    function(opts, _, answer, target)
        return checks.contains(opts.case and tostring or string.lower)(text.of(answer), target)
    end)

-------------------------------------------------------------------------------
-- Numbers

-- The number in an answer or target.
local function number_of(value)
    if type(value) == "number" then
        return value
    end
    return answers.number(text.of(value))
end

define_with_target("numeric", {
    tolerance = { type = "number", min = 0, default = 0 },
    relative = { type = "number", min = 0, default = 1e-9 },
}, function(opts, _, answer, target)
    local wanted = number_of(target)
    local given, reason = number_of(answer)
    if not wanted then
        return nil, "the target is not a number: " .. text.of(target), "NO_TARGET"
    elseif not given then
        return false, reason
    end
    local right = given == wanted or math.abs(given - wanted)
        <= math.max(opts.tolerance, opts.relative * math.abs(wanted))
    return right, not right and ("expected %s, got %s"):format(text.of(wanted), text.of(given))
        or nil
end)

-------------------------------------------------------------------------------
-- Patterns

define("regex", {
    pattern = { type = "string" },
    ignore_case = { type = "boolean", default = false },
}, function(opts, _, answer, target)
    local pattern = opts.pattern or target
    if type(pattern) ~= "string" then
        return nil, "expected a pattern, as option or target (got " .. options.show(pattern) .. ")",
            "NO_TARGET"
    end
    local right, why, code = checks.matches(text.of(answer), pattern, opts.ignore_case)
    return right, not right and why or nil, code
end, function(opts)
    local holds, message = checks.matches("", opts.pattern or "", opts.ignore_case)
    return holds == nil and message or nil
end)

-------------------------------------------------------------------------------
-- Choices

local LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

-- The letter of a target: a letter, an index, or the text of a choice.
local function letter_of(target, choices)
    local index = type(target) == "number" and math.tointeger(target)
    for i, choice in ipairs(choices or {}) do
        if choice == text.of(target) then
            index = i
            break
        end
    end
    local letter = index and LETTERS:sub(index, index)
        or text.of(target):match "^%s*[%(%[]?(%a)[%)%]]?%s*$"
    return letter and letter:upper()
end

define_with_target("choice", { choices = { type = "table" } },
    function(opts, item, answer, target)
        local choices = opts.choices or type(item.choices) == "table" and item.choices or nil
        local texts = choices and {}
        for i, one in ipairs(choices or {}) do
            texts[i] = text.of(one)
        end
        local wanted = letter_of(target, texts)
        if not wanted or wanted == "" then
            return nil, "the target does not name a choice: " .. text.of(target), "NO_TARGET"
        end
        local given = answers.choice(text.of(answer), texts)
        return given == wanted, given ~= wanted and ("expected %s, got %s"):format(wanted,
            given or "no choice") or nil
    end)

-------------------------------------------------------------------------------
-- JSON

define("json_schema", { schema = { type = "table" } }, function(opts, _, answer, target)
    local schema = opts.schema or target
    if type(schema) ~= "table" then
        return nil, "expected a JSON schema, as option or target (got " .. options.show(schema)
            .. ")", "NO_TARGET"
    end
    local problem = schemas.mistake(schema)
    if problem then
        return nil, "the JSON schema: " .. problem, "NO_TARGET"
    end
    local ok, message
    if type(answer) == "string" then
        ok, message = schemas.parse(answer, { schema = schema })
        ok = ok ~= nil
    else
        ok, message = schemas.check(answer, schema)
    end
    return ok == true, message
end, function(opts)
    return schemas.mistake(opts.schema)
end)

-------------------------------------------------------------------------------
-- A program, a model

define("command", {
    command = { type = "table", required = true },
    input = { type = "string", enum = { "answer", "json" }, default = "answer" },
    timeout_ms = { type = "integer", min = 1, default = 10000 },
    max_output_bytes = { type = "integer", min = 1, default = 65536 },
    env = { type = "table" },
    cwd = { type = "string" },
}, function(opts, item, answer, target)
    if not opts.command then
        error("eval.score.command: expected a program: score.command{command = {\"FILE\"}}", 0)
    end
    local input = text.of(answer)
    if opts.input == "json" then
        input = json.encode { item = item, answer = answer, target = target }
    end
    local ended, message, code = require("ponder.process").run { command = opts.command,
        input = input, timeout_ms = opts.timeout_ms, max_output_bytes = opts.max_output_bytes,
        env = opts.env, cwd = opts.cwd }
    if not ended then
        if code == "TIMEOUT" or code == "TOO_LARGE" then
            return false, message
        end
        return nil, message, code
    end
    local output = (ended.stderr ~= "" and ended.stderr or ended.stdout):match "^%s*([^\n]*)"
    return ended.status == 0, ended.status ~= 0 and ("%s%s"):format(ended.status
        and "exit status " .. ended.status or "signal " .. tostring(ended.signal),
        output ~= "" and ": " .. output or "") or nil
end)

define("model", judge.RULES, judge.measure, judge.prepare)
define("checks", { checks = { type = "table" }, model = { type = { "string", "table" } },
    embedder = { type = { "string", "table" } } }, checks.measure, checks.prepare)

-------------------------------------------------------------------------------
-- Several

---A score as a number.
---@param value boolean|number
---@return number
---@package
function score.number(value)
    return value == true and 1 or value == false and 0 or value
end

local function combined(name, is_better)
    score[name] = function(list)
        if type(list) ~= "table" or list[1] == nil then
            error(("eval.score.%s: expected a list of scorers (got %s)"):format(name,
                options.show(list)), 2)
        end
        local measures = {}
        for i, value in ipairs(list) do
            local measure, message = score.resolve(value)
            measures[i] = measure or error(("eval.score.%s: scorer %d %s"):format(name, i,
                message), 2)
        end
        return function(item, answer, target, took)
            local best, best_why
            for _, measure in ipairs(measures) do
                local value, why, code = measure(item, answer, target, took)
                if value == nil then
                    return nil, why, code
                elseif best == nil or is_better(score.number(value), score.number(best)) then
                    best, best_why = value, why
                end
            end
            return best, best_why
        end
    end
end

combined("all", function(a, b) return a < b end)
combined("any", function(a, b) return a > b end)

return score
