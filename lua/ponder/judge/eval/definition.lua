--- Checks the definition of an evaluation, which its file returns, and reads its data.

local json = require "ponder.json"
local options = require "ponder.base.options"
local policy = require "ponder.eval.policy"
local score = require "ponder.eval.score"
local sets = require "ponder.data"
local store = require "ponder.core.store"
local text = require "ponder.judge.eval.text"

local definition = {}

---@class ponder.eval.Evaluation
---@field name string
---@field items ponder.eval.Item[] to run
---@field policies ponder.eval.Policy[] the baseline first, then by name
---@field scorers {name: string, measure: ponder.eval.Measure}[] the first decides
---@field question fun(item: ponder.eval.Item): any
---@field target fun(item: ponder.eval.Item): any
---@field baseline string? name of a policy
---@field against "baseline"|"all" which policies are compared, unless a flag says otherwise
---@field curves boolean
---@field check_question (fun(items: ponder.eval.Item[]): string?)? what is wrong if no item has a
---  question

---@type OptionSchema
local RULES = {
    name = { type = "string", default = "eval" },
    data = { type = { "string", "table", "function" }, required = true },
    policies = { type = "table", required = true },
    score = { type = { "function", "string", "table" }, required = true },
    question = { type = { "string", "function" } },
    target = { type = { "string", "function" } },
    baseline = { type = "string" },
    curves = { type = "boolean", default = true },
}

---@type OptionSchema options of ponder.eval.run that select items and policies
definition.CHOICE = options.merge({
    policy = { type = "table" },
    baseline = { type = "string" },
    directory = { type = "string" },
    at_samples = { type = "table" },
    beside = { type = "boolean" },
}, sets.choice())

-- One scorer, a list of them, or several by name, in order. Errors name the caller of the caller.
local function scorers_of(given, level)
    local list = {}
    local function add(where, name, value)
        local measure, message = score.resolve(value)
        if not measure then
            error(("eval: %s %s"):format(where, message), level + 2)
        end
        list[#list + 1] = { name = name, measure = measure }
    end
    local function own_name(value)
        return type(value) == "string" and value or type(value) == "table" and value.name
    end
    if type(given) ~= "table" or getmetatable(given) then
        add("score", own_name(given) or "score", given)
    elseif given[1] ~= nil then
        for i, value in ipairs(given) do
            add(("score[%d]"):format(i), own_name(value) or "score" .. i, value)
        end
    else
        for _, name in ipairs(options.names(given)) do
            add("score." .. tostring(name), tostring(name), given[name])
        end
    end
    return list[1] and list or error("eval: score must not be empty", level + 1)
end

local function check_name(name, policies, what, level)
    if policies[name] == nil then
        local names = options.names(policies)
        error(("eval: %s %s is not a policy%s; there are %s"):format(what, options.show(name),
            options.hint(name, names), table.concat(names, ", ")), level + 1)
    end
end

-- The model of the first strategy of an evaluation without a prompt, which lacks what a strategy is
-- to be compared with; nil: there is no such strategy.
local function model_without_vote(policies, level)
    local first
    for _, name in ipairs(options.names(policies)) do
        local made = policy.new(name, policies[name], level + 1)
        if made.kind == "prompt" then
            return nil
        end
        first = first or made.model
    end
    return first
end

-- The policies to run, the baseline first, then by name; and the baseline.
local function chosen_policies(checked, opts, level)
    local baseline, names, policies = opts.baseline or checked.baseline, {}, {}
    if baseline then
        check_name(baseline, checked.policies, "baseline", level + 1)
    end
    for _, name in ipairs(opts.policy or options.names(checked.policies)) do
        if type(name) ~= "string" then
            error(("eval: the names of policies must be strings (got %s)"):format(
                options.show(name)), level + 1)
        end
        check_name(name, checked.policies, "policy", level + 1)
        names[#names + 1] = not options.has(names, name) and name or nil
    end
    if not names[1] then
        error("eval: policies must not be empty", level + 1)
    end
    table.sort(names, function(a, b)
        if (a == baseline) ~= (b == baseline) then
            return a == baseline
        end
        return a < b
    end)
    local counts, m = opts.at_samples, nil
    if counts and opts.beside ~= false then
        m = model_without_vote(checked.policies, level + 1)
    end
    for _, samples in ipairs(counts or { false }) do
        local list = m and policy.beside(m, samples, level + 1) or {}
        for i, name in ipairs(names) do
            table.insert(list, i, policy.new(name, checked.policies[name], level + 1,
                samples or nil))
        end
        for _, made in ipairs(list) do
            made.name = samples and ("%s@%d"):format(made.name, samples) or made.name
            policies[#policies + 1] = made
        end
    end
    local first = policies[1].name
    return policies, (names[1] == baseline or not opts.baseline) and first or nil
end

-- A function that returns a field of an item, given as a function, by name, or by default.
local function getter(given, default)
    if type(given) == "function" then
        return given
    end
    local name = given or default
    return function(item)
        return item[name]
    end
end

local ID_DIGITS = 16 -- of the hash of an item without an id

---@class ponder.eval.Item a table of fields; any other value becomes its `question`
---@field id string its own id as text, else a hash of its content
---@field cluster any? items of one cluster are not independent

-- The items of an evaluation, each with an id; or nil, message. Its data are what ponder.data.load
-- takes, with names relative to `directory`; a list; or a function that gets a reader of such.
local function items_of(source, directory)
    local function load_file(path)
        local is_relative = path ~= "-" and path:sub(1, 1) ~= "/" and directory
        return sets.load(is_relative and directory .. "/" .. path or path)
    end
    local list, message = source, nil
    if type(source) == "string" then
        list, message = load_file(source)
    elseif type(source) == "function" then
        list, message = source(load_file)
        message = message and tostring(message) or "data(load) returned nothing"
    end
    if list == nil then
        return nil, message
    elseif type(list) ~= "table" or list[1] == nil then
        return nil, ("data: expected a non-empty list of items (got %s)"):format(
            type(list) == "table" and "none" or options.show(list))
    end
    local items, index_of = {}, {}
    for i, value in ipairs(list) do
        local item = { id = nil, question = nil, target = nil } -- room for the usual fields
        for name, field in pairs(type(value) == "table" and value or { question = value }) do
            item[name] = field ~= json.null and field or nil
        end
        local id, problem
        if item.id ~= nil then
            id = math.type(item.id) == "float" and math.tointeger(item.id) or item.id
            id = (type(id) == "string" or type(id) == "number") and tostring(id) or nil
            problem = "its id must be a string or a number"
        else
            local ok, encoded = pcall(json.encode, value)
            id = ok and store.sha256(encoded):sub(1, ID_DIGITS)
            problem = not ok and "has no id and cannot be encoded as JSON: "
                .. encoded:gsub("^.-json%.encode: ", "")
        end
        if not id then
            return nil, ("data: item %d: %s"):format(i, problem)
        elseif index_of[id] then
            return nil, ("data: item %d has the same %s as item %d: %s"):format(i,
                item.id ~= nil and "id" or "content", index_of[id], id)
        end
        item.id, index_of[id] = id, i
        items[i] = item
    end
    return items
end

local function question_problem(items)
    local has_one = false
    for _, item in ipairs(items) do
        has_one = has_one or item.question ~= nil
    end
    return not has_one and "eval: question: " .. text.no_field("question", items) or nil
end

---What is wrong with prompts and questions that fit no item: each run would fail.
function definition.problem(evaluation)
    for _, one in ipairs(evaluation.policies) do
        local check = one.check or one.asks_question and evaluation.check_question
        local problem = check and check(evaluation.items) or nil
        if problem then
            return problem
        end
    end
end

---@param list any[] numbers of samples at which policies are to be compared
function definition.samples_problem(list)
    local seen = {}
    for _, samples in ipairs(list) do
        if math.type(samples) ~= "integer" or samples < 1 or samples > 1024 then
            return ("expected numbers from 1 to 1024 (got %s)"):format(samples)
        elseif seen[samples] then
            return ("%d is there twice"):format(samples)
        end
        seen[samples] = true
    end
    return not list[1] and "expected numbers from 1 to 1024" or nil
end

---Checks an evaluation. An invalid definition raises; invalid data do not.
---@param opts table of definition.CHOICE, checked; `scores`: only what scores answers is needed, so
---  no policy is made
---@param level integer the error level: 1 is this function
---@return ponder.eval.Evaluation?
---@return string? message what is wrong with the data
---@return "BAD_DATA"? code
function definition.new(given, opts, level)
    local checked = options.check("eval", given, RULES, level + 1)
    local policies, baseline
    local problem = opts.at_samples and definition.samples_problem(opts.at_samples)
    if problem then
        error("eval: at_samples: " .. problem, level + 1)
    end
    if not opts.scores then
        policies, baseline = chosen_policies(checked, opts, level + 1)
    end
    local question, check_question = checked.question, nil
    if type(question) == "string" then
        question, check_question = text.template(question, "eval: question")
    end
    local evaluation = { name = checked.name, policies = policies, baseline = baseline,
        scorers = scorers_of(checked.score, level + 1), question = getter(question, "question"),
        against = baseline and (opts.baseline or checked.baseline) and "baseline" or "all",
        target = getter(checked.target, "target"), curves = checked.curves,
        check_question = check_question or not question and question_problem or nil }
    local items, message = items_of(checked.data, opts.directory)
    if not items then
        return nil, message, "BAD_DATA"
    end
    evaluation.items, message = sets.choose(items, options.pick(opts, options.names(sets.choice())))
    if not evaluation.items then
        return nil, "data: " .. message, "BAD_DATA"
    end
    return evaluation
end

return definition
