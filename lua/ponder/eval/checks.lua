--- The scorer `checks`: what must hold for an answer, for all items and for each of its own.
---
---     local score = require "ponder.eval.score"
---     local evaluation = {
---         data = { { question = "The capital of France?", checks = {
---             { type = "contains", value = "Paris" } } } },
---         policies = { mine = function(item) return "It is Paris." end },
---         score = score.checks { checks = { { type = "latency", threshold = 5000 } } },
---     }
---     print(require("ponder.eval").run(evaluation).policies[1].accuracy.value)
---
--- | type                         | holds if                                                    |
--- |------------------------------|-------------------------------------------------------------|
--- | equals                       | the answer is `value`; of a table, is JSON equal to it      |
--- | contains, icontains          | it contains `value`, icontains in any case                  |
--- | contains_any, icontains_any  | it contains one of the list `value`                         |
--- | contains_all, icontains_all  | it contains all of them                                     |
--- | starts_with                  | it begins with `value`                                      |
--- | regex                        | it matches the POSIX extended expression `value`            |
--- | is_json, contains_json       | it is, or contains, JSON; that fits the schema `value`      |
--- | rubric                       | a model grades it PASS by the rubric `value`                |
--- | similar                      | the cosine of its vector and that of `value`, or of the     |
--- |                              | nearest of a list, is `threshold` (0.75) or more            |
--- | cost, latency                | its run cost up to `threshold` dollars; waited up to        |
--- |                              | `threshold` milliseconds for replies                        |
---
--- A check also has `negated` (it must not hold), `weight` (1; one with 0 is left out) and `model`
--- (of rubric and similar; else `model` and `embedder` of the scorer). A `value` is a template over
--- the item's fields. All must hold; with a `threshold` in the item's list, the weighted share of
--- those that do must reach it. Models are asked only while the others leave the result open.

local json = require "ponder.json"
local judge = require "ponder.judge.eval.judge"
local models = require "ponder.model"
local options = require "ponder.base.options"
local regex = require "ponder.core.regex"
local schemas = require "ponder.model.schema"
local text = require "ponder.judge.eval.text"

local checks = {}

local MAX_TRIES = 100 -- places where JSON may begin
local SIMILAR = 0.75

local CHECK = { type = { type = "string", required = true },
    value = { type = { "string", "number", "boolean", "table" } },
    threshold = { type = "number", min = 0 }, weight = { type = "number", min = 0, default = 1 },
    negated = { type = "boolean", default = false }, model = { type = { "string", "table" } } }

-- Whether two JSON values are equal: numbers by their value; an empty table of Lua may be a list or
-- an object.
local function equal(a, b)
    if type(a) ~= "table" or type(b) ~= "table" then
        return a == b
    end
    for key, value in pairs(a) do
        if not equal(value, b[key]) then return false end
    end
    for key in pairs(b) do
        if a[key] == nil then return false end
    end
    return true
end

-- The first JSON list or object within a text that a schema, if any, accepts.
local function find_json(given, schema)
    local at, problem = 0, "contains no JSON"
    for _ = 1, MAX_TRIES do
        at = given:find("[%[{]", at + 1)
        if not at then break end
        local part = given:match(given:sub(at, at) == "{" and "^%b{}" or "^%b[]", at)
        local value = part and json.decode(part)
        if value ~= nil then
            local fits, why = schemas.check(value, schema or {})
            if fits then return true end
            problem = why
        end
    end
    return false, problem
end

---Makes a check of which parts of a list, or which one, a text contains.
---@param fold fun(text: string): string
---@param some? boolean one of them will do
---@package
function checks.contains(fold, some)
    return function(given, value)
        given = fold(given)
        local missing
        for _, part in ipairs(type(value) == "table" and value or { value }) do
            local found = given:find(fold(text.of(part)), 1, true)
            if found and some then return true end
            missing = not found and (missing or text.of(part)) or missing
        end
        return missing == nil, missing and "does not contain " .. missing
    end
end

-- By type: of the answer as text, `value`, the check, the scorer's options, the item and what the
-- run took, whether it holds, or nil; why not; a code.
local KINDS = { contains = checks.contains(tostring), icontains = checks.contains(string.lower),
    contains_any = checks.contains(tostring, true),
    icontains_any = checks.contains(string.lower, true) }
KINDS.contains_all, KINDS.icontains_all = KINDS.contains, KINDS.icontains

function KINDS.equals(given, value)
    local decoded = type(value) == "table" and json.decode(given)
    return given == text.of(value) or type(value) == "table" and equal(decoded, value),
        "expected " .. text.of(value)
end

function KINDS.starts_with(given, value)
    return given:sub(1, #text.of(value)) == text.of(value), "does not begin with " .. text.of(value)
end

---Whether a text matches a POSIX extended expression; or nil and what is wrong with that.
---@package
function checks.matches(given, pattern, ignore_case)
    local expression, message = regex.new(pattern, ignore_case or false)
    if not expression then
        return nil, ("the pattern %s: %s"):format(options.show(pattern), message), "NO_TARGET"
    end
    return expression:matches(given), "does not match " .. pattern
end

function KINDS.regex(given, value)
    return checks.matches(given, text.of(value))
end

function KINDS.is_json(given, schema)
    local value, message = json.decode(given)
    if value == nil then
        return false, "is not JSON: " .. message:gsub("^json%.decode: ", "")
    elseif schema then
        local ok, why = schemas.check(value, schema)
        return ok == true, why
    end
    return true
end

KINDS.contains_json = find_json

function KINDS.rubric(given, value, check, opts, item)
    local rated, why, code = judge.measure({ rubric = text.of(value), votes = 1, against = "rubric",
        model = check.model or opts.model, max_output_tokens = 500 }, item, given)
    return rated and rated >= (check.threshold or 1), not rated and why or "the rubric: " .. why,
        code
end

function KINDS.similar(given, value, check, opts)
    local list = type(value) == "table" and value or { value }
    local vectors, message, code = (check.model or opts.embedder):embed { given,
        table.unpack(list) }
    if not vectors then
        return nil, message, code
    end
    local best = -1
    for i = 2, #vectors do
        local dot, a, b = 0, 0, 0
        for k, x in ipairs(vectors[1]) do
            local y = vectors[i][k] or 0
            dot, a, b = dot + x * y, a + x * x, b + y * y
        end
        best = a * b > 0 and math.max(best, dot / math.sqrt(a * b)) or best
    end
    return best >= (check.threshold or SIMILAR) - 1e-9, ("is %.3f similar"):format(best)
end

function KINDS.cost(_, _, check, _, _, took)
    if not took.cost then
        return nil, "the cost of the run is unknown", "NO_COST"
    end
    return took.cost <= check.threshold, ("costs $%.6g"):format(took.cost)
end

function KINDS.latency(_, _, check, _, _, took)
    local ms = took.critical_seconds * 1000
    return ms <= check.threshold, ("took %.0f ms"):format(ms)
end

local ASKS = { rubric = "model", similar = "embedder" }

-- Checks of a list, with their models open; or nil and what is wrong.
local function prepared(list, opts)
    local found = {}
    for i, given in ipairs(list) do
        local ok, check = pcall(options.check, ("checks[%d]"):format(i), given, CHECK, 0)
        if not ok then
            return nil, check
        elseif not KINDS[check.type] then
            return nil, ("checks[%d].type: unknown type %s%s"):format(i, options.show(check.type),
                options.hint(check.type, options.names(KINDS)))
        end
        local need, problem = ASKS[check.type], nil
        local has = (check.type == "cost" or check.type == "latency") and "threshold" or "value"
        if check[has] == nil and not check.type:find "json" then
            problem = "needs " .. has
        elseif check.type:find "json" and check.value then
            problem = schemas.mistake(check.value)
        elseif need and not check.model and not opts[need] then
            problem = ("needs a model: model of the check, or opts.%s"):format(need)
        elseif type(check.model) == "string" then
            check.model, problem = models.try_open(check.model)
        end
        if problem then
            return nil, ("checks[%d] (%s): %s"):format(i, check.type, problem)
        end
        found[i] = check
    end
    return found
end

---Opens the models and reads the checks for all items.
---@param opts table changed
---@return string? problem
---@package
function checks.prepare(opts)
    local problem
    for _, name in ipairs { "model", "embedder" } do
        if type(opts[name]) == "string" then
            opts[name], problem = models.try_open(opts[name])
            if problem then return problem end
        end
    end
    opts.checks, problem = prepared(opts.checks or {}, opts)
    return problem
end

-- The value of a check with an item's fields filled in.
local function filled(value, item)
    if type(value) == "string" and value:find("{{", 1, true) then
        return text.template(value, "checks")(item)
    elseif type(value) == "table" and value[1] ~= nil then
        local list = {}
        for i, one in ipairs(value) do
            list[i] = filled(one, item)
        end
        return list
    end
    return value
end

---Scores an answer: see ponder.eval.score.
---@param opts table
---@param item ponder.eval.Item
---@param answer any
---@param _ any
---@param took table what its run took: cost, critical_seconds
---@return boolean? holds
---@return string? why not; or why it cannot be scored
---@return string? code
---@package
function checks.measure(opts, item, answer, _, took)
    local own, problem = prepared(item.checks or {}, opts)
    if not own then
        return nil, problem, "NO_TARGET"
    end
    local threshold, list = (item.checks or {}).threshold, {}
    for _, asks in ipairs { false, true } do -- models last
        for _, one in ipairs { opts.checks or {}, own } do
            for _, check in ipairs(one) do
                local is_in = check.weight > 0 and (ASKS[check.type] ~= nil) == asks
                list[#list + 1] = is_in and check or nil
            end
        end
    end
    local total, held, open, failed = 0, 0, 0, {}
    for _, check in ipairs(list) do
        total, open = total + check.weight, open + check.weight
    end
    local given = text.of(answer)
    for _, check in ipairs(list) do
        local is_open = threshold and held < threshold * total and held + open >= threshold * total
            or not threshold and not failed[1]
        if ASKS[check.type] and not is_open then break end
        local holds, why, code = KINDS[check.type](given, filled(check.value, item), check, opts,
            item, took or {})
        if holds == nil then
            return nil, why, code
        end
        open = open - check.weight
        if holds ~= check.negated then
            held = held + check.weight
        else
            failed[#failed + 1] = check.negated and "holds, but must not: " .. check.type or why
        end
    end
    local passed = threshold and held >= threshold * total - 1e-9 or not threshold and not failed[1]
    return passed, not passed and table.concat(failed, "; ") or nil
end

return checks
