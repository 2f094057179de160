--- Reads the records of a finished evaluation from its log or from the output of --json.

local definition = require "ponder.judge.eval.definition"
local attempt = require "ponder.judge.eval.attempt"
local json = require "ponder.json"
local options = require "ponder.base.options"
local read_file = require("ponder.base.file").read
local reader = require "ponder.run.log.reader"
local spool = require "ponder.judge.eval.spool"
local work = require "ponder.judge.eval.work"

local recorded = {}

local META = {
    name = { type = "string" }, baseline = { type = "string" }, items = { type = "integer" },
    epochs = { type = "integer" }, seed = { type = "integer" },
    exclude_errors = { type = "boolean" }, cut = { type = "string" },
    against = { type = "string" },
    decide = { type = "number", min = 0, max = 1 }, margin = { type = "number", min = 0, max = 1 },
    left_out = { type = "table" }, policies = { type = "table", texts = true, required = true },
    scorers = { type = "table", texts = true },
}
local RECORD = { id = { type = "string", required = true }, epoch = { type = "integer", min = 1,
    required = true }, policy = { type = "string", required = true },
    outcome = { type = "string", required = true } }
for _, name in ipairs { "score", "samples", "calls", "tokens", "estimated_tokens", "cost",
    "estimated_cost", "seconds", "critical_seconds", "score_calls", "score_cost" } do
    RECORD[name] = { type = "number", finite = true }
end
for _, name in ipairs { "block", "block_items" } do
    RECORD[name] = { type = "integer", min = 1 }
end
for _, name in ipairs { "message", "code", "why" } do
    RECORD[name] = { type = "string" }
end
for _, name in ipairs { "scores", "paid", "points", "drawn" } do
    RECORD[name] = { type = "table" }
end

local END = { cut = META.cut, left_out = META.left_out }
local LEFT_OUT = {} -- of META and of the event at the end
for _, name in ipairs { "runs", "calls", "tokens", "cost" } do
    LEFT_OUT[name] = { type = "number", finite = true, required = true }
end

-- Raises a line unless a value from a file has the fields of an evaluation or a record.
local function check(path, what, value, rules)
    value = type(value) == "table" and value or {}
    for _, name in ipairs(options.names(rules)) do
        local rule, problem = rules[name], nil
        if value[name] ~= nil or rule.required then
            _, problem = options.check_value(value[name], rule)
        end
        for _, text in ipairs(rule.texts and not problem and value[name] or {}) do
            problem = type(text) ~= "string" and "must be a list of texts" or problem
        end
        if problem then
            error(("%s: damaged: %s: %s %s"):format(path, what, name, problem), 0)
        end
    end
    return value
end

local function key_of(record)
    return work.key(record.policy, record.id, record.epoch)
end

local function from_json(path)
    local text, message, code = read_file(path)
    if not text then
        return nil, message, code
    end
    local result, problem = json.decode(text)
    local meta = type(result) == "table" and result.meta
    if type(meta) ~= "table" or type(meta.policies) ~= "table"
        or type(result.records) ~= "table" then
        return nil, ("%s: expected the output of ponder eval --json%s"):format(path,
            problem and ": " .. problem or "")
    end
    check(path, "meta", meta, META)
    if meta.left_out then
        check(path, "meta.left_out", meta.left_out, LEFT_OUT)
    end
    local records, known = {}, {}
    for i, record in ipairs(result.records) do
        local key = key_of(check(path, "record " .. i, record, RECORD))
        records[#records + 1] = not known[key] and record or nil
        known[key] = true
    end
    return meta, records
end

-- The last evaluation of a log, and the last record of each of its runs.
local function from_log(path)
    local log <close>, message, code = reader.open(path)
    if not log then
        return nil, message, code
    end
    local meta, place_of, has_ended, records, count = nil, {}, false, spool.new(), 0
    for event in log:events() do
        local what = ("event %d, %s"):format(event.id, event.name)
        if event.name == work.BEGIN then
            meta, place_of, has_ended = check(path, what, event.data, META), {}, false
        elseif event.name == work.RECORD and meta then
            count = count + 1
            place_of[key_of(check(path, what, event.data, RECORD))] = count
            records:put(count, json.encode(event.data))
        elseif event.name == work.END and meta then
            meta.cut, has_ended = check(path, what, event.data, END).cut, true
            meta.left_out = event.data.left_out
                and check(path, what, event.data.left_out, LEFT_OUT)
        end
    end
    if not meta then
        return nil, path .. ": has no evaluation", "NOT_FOUND"
    end
    if not has_ended then
        meta.cut = log:state() ~= "running" and "interrupted" or nil
    end
    return meta, records:records(options.at(place_of, options.names(place_of)))
end

---Reads an evaluation, each policy and each run once.
---@param path string a log, or a name that ends in .json
---@return ponder.eval.Record[]|string records, or a message
function recorded.read(path)
    local ok, meta, records, code = pcall(path:find "%.json$" and from_json or from_log, path)
    if not ok then
        return nil, meta, "DAMAGED"
    elseif not meta then
        return nil, records, code
    end
    local policies = {}
    for _, name in ipairs(meta.policies) do
        policies[#policies + 1] = not options.has(policies, name) and name or nil
    end
    local epochs = 1
    for _, record in ipairs(records) do
        epochs = math.max(epochs, record.epoch)
    end
    if epochs > (meta.epochs or epochs) then
        return nil, ("%s: damaged: a record of epoch %d of %d"):format(path, epochs, meta.epochs),
            "DAMAGED"
    end
    meta.policies, meta.scorers = policies, meta.scorers or {}
    meta.epochs, meta.seed = meta.epochs or epochs, meta.seed or 0
    return meta, records
end

---The records to reuse, by key: those that neither failed nor were stopped.
function recorded.good(records)
    local known = {}
    for _, record in ipairs(records) do
        if record.outcome ~= "failed" and record.outcome ~= "stopped" then
            known[key_of(record)] = record
        end
    end
    return known
end

-- Whether the answers of a record's curve are missing, as in the output of --json.
local function lacks_answers(record)
    local list = record.drawn or record.points
    for _, one in ipairs(list or {}) do
        if one.answer ~= nil then
            return false
        end
    end
    return list ~= nil and list[1] ~= nil
end

---Scores recorded answers again, and those of the curves, with the scorers and targets of a file;
---makes and runs no policy.
---@param directory string the base of relative names of data files
---@return ponder.eval.Evaluation? evaluation without `curves` if their answers are not recorded
---@return ponder.eval.Record[]|string scored those with an item; or a message
---@return integer? gone items that the others have
function recorded.rescore(given, directory, records, call_seed, level)
    local evaluation, message = definition.new(given, { scores = true, directory = directory },
        level + 1)
    if not evaluation then
        return nil, message
    end
    local items, gone, scored, count = {}, {}, spool.new(), 0
    for _, item in ipairs(evaluation.items) do
        items[item.id] = item
    end
    for _, record in ipairs(records) do
        evaluation.curves = evaluation.curves and not lacks_answers(record)
    end
    for _, record in ipairs(records) do
        local item = items[record.id]
        if not item then
            gone[record.id] = true
        else
            if record.answer ~= nil then
                record.outcome = record.outcome == "stopped" and "stopped" or nil
                record.scores, record.why = nil, nil
                record.message = record.outcome and record.message
            end
            attempt.score(record, evaluation, item, call_seed)
            spool.strip(record)
            count = count + 1
            scored:put(count, spool.encode(record))
        end
    end
    return evaluation, scored:records(), #options.names(gone)
end

return recorded
