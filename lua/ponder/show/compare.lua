--- Compares two runs: their inputs, calls, trees, outcomes and costs.
---
--- Nodes are equal if their texts and those of all their ancestors are equal; equal siblings are
--- paired in order. Calls are equal if their requests are equal.

local amount = require "ponder.show.amount"
local json = require "ponder.json"
local options = require "ponder.base.options"

local compare = {}

local MAX_LISTED = 10000 -- calls, or nodes, of one kind that are listed; more are only counted

-- Compares values as JSON, which ignores the order of fields and whether a number is a float.
local function equal(a, b)
    return (a ~= nil and json.encode(a) or nil) == (b ~= nil and json.encode(b) or nil)
end

local MAX_DEPTH = 200

-- The part of an answer to compare: its field `answer`, if any; otherwise everything but times.
local function essence(value, depth)
    if type(value) ~= "table" or depth > MAX_DEPTH then
        return value
    elseif depth == 0 and value.answer ~= nil then
        return value.answer
    end
    local copy = {}
    for name, field in pairs(value) do
        if type(name) ~= "string" or not name:find("_ms$") and not name:find("_at$") then
            copy[name] = essence(field, depth + 1)
        end
    end
    return #value > 0 and json.array(copy) or copy
end

-------------------------------------------------------------------------------
-- Inputs

local function keys_of(a, b)
    local all = options.merge({}, type(a) == "table" and a or nil)
    return options.names(options.merge(all, type(b) == "table" and b or nil))
end

local function add_given(list, name, a, b)
    if not equal(a, b) then
        table.insert(list, { name = name, a = a, b = b })
    end
end

-- The command line without --log.
local function command_of(run)
    local given = type(run.arguments) == "table" and run.arguments or {}
    local words = table.move(given, 1, #given, 1, {})
    for i, word in ipairs(words) do
        if word == "--log" then
            table.remove(words, i + 1)
        end
        if word:find "^%-%-log%f[=\0]" then
            table.remove(words, i)
            break
        end
    end
    return amount.command { command = run.command, arguments = words }
end

local function compare_given(a, b)
    local list = json.array {}
    add_given(list, "command", command_of(a), command_of(b))
    add_given(list, "input", a.input, b.input)
    add_given(list, "seed", a.seed, b.seed)
    for _, field in ipairs { "options", "versions" } do
        for _, key in ipairs(keys_of(a[field], b[field])) do
            add_given(list, key, (a[field] or {})[key], (b[field] or {})[key])
        end
    end
    return list
end

local function files_of(log)
    local files = {}
    for file in log:files() do
        files[file.path] = file
    end
    return files
end

local function compare_files(log_a, log_b)
    local a, b = files_of(log_a), files_of(log_b)
    local list = json.array {}
    for _, path in ipairs(keys_of(a, b)) do
        local one, other = a[path], b[path]
        if not one or not other or one.hash ~= other.hash then
            table.insert(list, { path = path, kind = (one or other).kind, a = one and one.hash,
                b = other and other.hash, a_text = one and one.text,
                b_text = other and other.text })
        end
    end
    return list
end

-------------------------------------------------------------------------------
-- Calls

-- Adds the ids of calls beyond the first `others` with a request.
local function add_surplus(ids, log, identity, others)
    for id in log:repeats(identity, others) do
        ids[#ids + 1] = id
    end
end

-- The first of the calls with these ids.
local function calls_of(log, ids)
    table.sort(ids)
    local list = json.array {}
    for i = 1, math.min(#ids, MAX_LISTED) do
        list[i] = options.pick(log:call(ids[i]), { "id", "provider", "model", "purpose", "node",
            "within" })
    end
    return list
end

local function compare_calls(log_a, log_b)
    local a, b, same, others = {}, {}, 0, {}
    for request, count in log_b:requests() do
        others[request] = count
    end
    for request, count in log_a:requests() do
        local other = others[request] or 0
        same, others[request] = same + math.min(count, other), nil
        if count > other then
            add_surplus(a, log_a, request, other)
        elseif other > count then
            add_surplus(b, log_b, request, count)
        end
    end
    for request in pairs(others) do
        add_surplus(b, log_b, request, 0)
    end
    return { same = same, only_a = calls_of(log_a, a), only_b = calls_of(log_b, b),
        only_a_count = #a, only_b_count = #b }
end

-------------------------------------------------------------------------------
-- Trees

local function compare_search(log_a, log_b, a, b, opts)
    local found = log_a:twins(a.id, log_b, b.id, { most = MAX_LISTED, pairs = opts and opts.pairs })
    found.best_path_same, found.same_path = found.same_path, nil
    found.b_nodes = found.a_nodes - found.only_a_count + found.only_b_count
    found.same = found.only_a_count + found.only_b_count + found.scored_count == 0
        and found.best_path_same and a.reason == b.reason
    return options.merge(found, { id = a.id, kind = a.kind, a_score = a.score, b_score = b.score,
        a_reason = a.reason, b_reason = b.reason })
end

-- Compares the searches of both runs in order.
local function compare_searches(log_a, log_b, opts)
    local list, rows_b = json.array {}, log_b:searches()
    for a in log_a:searches() do
        local b = rows_b()
        table.insert(list, b and a.kind == b.kind and compare_search(log_a, log_b, a, b, opts)
            or { id = a.id, kind = a.kind, b_kind = b and b.kind, same = false,
                a_nodes = log_a:node_count(a.id), b_nodes = b and log_b:node_count(b.id) })
    end
    for b in rows_b do
        table.insert(list, { id = b.id, b_kind = b.kind, same = false,
            b_nodes = log_b:node_count(b.id) })
    end
    return list
end

-------------------------------------------------------------------------------

local function side_of(log, run)
    local totals = log:totals()
    return options.merge(options.pick(totals, { "calls", "reused", "errors", "input_tokens",
        "output_tokens", "unmetered", "cost", "unpriced" }), { path = log.path, answer = run.answer,
        state = log:state(), exit_status = run.exit_status, error = run.error,
        saved_cost = run.saved_cost, duration_s = amount.duration(run, totals.last_at) })
end

---@class ponder.show.Comparison
---@field same boolean whether the outcomes are equal: answer, status, trees
---@field a table one run: path, state, answer, calls, tokens, cost, duration_s
---@field b table
---@field answers_same boolean
---@field given {name: string, a: any, b: any}[] inputs that differ
---@field files table[] files whose hashes differ, with their texts
---@field calls {same: integer, only_a: table[], only_b: table[], only_a_count: integer,
---  only_b_count: integer} the first 10,000 are listed
---@field searches table[] of nodes the first 10,000 are listed, too

---Compares two runs.
---@param opts? {pairs: boolean?} pairs: searches have `pairs`, the ids of equal nodes
---@return ponder.show.Comparison
function compare.of(log_a, log_b, opts)
    local run_a, run_b = log_a:run(), log_b:run()
    local result = { a = side_of(log_a, run_a), b = side_of(log_b, run_b),
        answers_same = equal(essence(run_a.answer, 0), essence(run_b.answer, 0)),
        given = compare_given(run_a, run_b),
        files = compare_files(log_a, log_b), calls = compare_calls(log_a, log_b),
        searches = compare_searches(log_a, log_b, opts) }
    result.same = result.answers_same and result.a.state == result.b.state
    for _, search in ipairs(result.searches) do
        result.same = result.same and search.same
    end
    return result
end

return compare
