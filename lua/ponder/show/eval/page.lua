--- Writes an evaluation as one self-contained page: the table, the curves, the items.

local json = require "ponder.json"
local messages = require "ponder.show.messages"
local quote = require "ponder.quote"
local reader = require "ponder.run.log.reader"
local standalone = require "ponder.show.standalone"
local tables = require "ponder.show.eval.table"

local page = {}

local MAX_TEXT_BYTES = 4000 -- of an answer, a question, a message
local FIELDS = { "policy", "id", "epoch", "outcome", "score", "answer", "target", "why", "code",
    "message", "samples", "calls", "tokens", "estimated_tokens", "cost", "estimated_cost",
    "seconds", "critical_seconds" }
local TEXTS = { answer = true, target = true, why = true, message = true }

-------------------------------------------------------------------------------
-- The calls and searches of each run, from the log

local MAX_RUNS_BYTES = 8 << 20 -- of all texts of runs
local MAX_RUN_TEXT_BYTES = 2000 -- of one
local MAX_NODES = 100 -- of a tree

local function key_of(labels)
    local decoded = json.decode(labels)
    if type(decoded) == "table" and decoded.policy and decoded.item and decoded.epoch then
        return ("%s\n%s\n%d"):format(decoded.policy, decoded.item, decoded.epoch)
    end
end

-- Truncates a text and subtracts its size from the space left.
local function take(room, value)
    local shown = quote.utf8(value)
    if #shown > MAX_RUN_TEXT_BYTES then
        shown = quote.head(shown, MAX_RUN_TEXT_BYTES) .. " ..."
    end
    room.left = room.left - #shown
    return shown
end

local function reply_of(reply)
    local decoded, texts = reply and json.decode(reply), {}
    for i, sample in ipairs(type(decoded) == "table" and decoded.samples or {}) do
        texts[i] = type(sample.text) == "string" and sample.text or ""
    end
    return table.concat(texts, "\n---\n")
end

local function run_of(all, labels, id)
    local key = key_of(labels)
    if key and not all[key] then
        all[key] = { id = id, calls = json.array {}, trees = json.array {} }
    end
    return all[key]
end

local function read_calls(log, all, room)
    for id, labels, model, status, cost, request, reply in log:labelled_calls() do
        local run = room.left > 0 and run_of(all, labels, id)
        if run then
            table.insert(run.calls, { model = model, status = status, cost = cost,
                prompt = messages.prompt(json.decode(request), function(text)
                    return take(room, text)
                end), reply = take(room, reply_of(reply)) })
        end
    end
end

-- Reads trees as outlines: `0.80* text`, with a star on the path to the best node.
local function read_trees(log, all, room)
    local current, lines, shown
    local function finish()
        if lines then
            table.insert(current.trees, table.concat(lines, "\n"))
        end
        lines = nil
    end
    local last
    for id, labels, search, depth, score, best, text in log:labelled_nodes() do
        local key = id .. " " .. search
        if key ~= last then
            finish()
            last, shown = key, 0
            current = room.left > 0 and run_of(all, labels, id)
            lines = current and {}
        end
        if lines and shown < MAX_NODES then
            shown = shown + 1
            lines[shown] = take(room, ("%s%s%s %s"):format(("  "):rep(depth or 0),
                score and ("%.2f"):format(score) or "-", best == 1 and "*" or "",
                (tostring(text or ""):gsub("%s+", " "):sub(1, 200))))
        elseif lines and shown == MAX_NODES then
            shown = shown + 1
            lines[shown] = "..."
        end
    end
    finish()
end

-- The runs of a log as {id, calls, trees}, by three lines: policy, item and epoch.
local function read_runs(path)
    local log <close> = reader.open(path)
    if not log then
        return nil
    end
    local all, room = {}, { left = MAX_RUNS_BYTES }
    read_calls(log, all, room)
    read_trees(log, all, room)
    return all
end

-------------------------------------------------------------------------------
-- The page

-- Any value as text, truncated.
local function short(value)
    if type(value) ~= "string" then
        local ok, encoded = pcall(json.encode, value)
        value = ok and encoded or tostring(value)
    end
    if #value > MAX_TEXT_BYTES then
        value = quote.head(value, MAX_TEXT_BYTES) .. " ..."
    end
    return value
end

local function row_of(record)
    local row = {}
    for i, name in ipairs(FIELDS) do
        local value = record[name]
        row[i] = value == nil and json.null or TEXTS[name] and short(value) or value
    end
    return json.array(row)
end

---The page of a result.
---@param result ponder.eval.Result
---@param log? string path of its log, for the calls and trees of each run
---@param served? string the name of the log, on a served page, which links to its runs
---@return string html
function page.write(result, log, served)
    local rows, questions = json.array {}, json.object {}
    for i, record in ipairs(result.records) do
        rows[i] = row_of(record)
        if record.question ~= nil and not questions[record.id] then
            questions[record.id] = short(record.question)
        end
    end
    local head, columns, cells = json.array {}, tables.cells(result)
    for i, column in ipairs(columns) do
        head[i] = column[1]
    end
    return standalone.page("evaluation", { meta = result.meta,
        table = { head = head, rows = json.array(cells) },
        policies = json.array(tables.sorted(result)), curves = result.curves or json.object {},
        notes = json.array(tables.notes(result, true)), fields = FIELDS, records = rows,
        questions = questions, runs = log and read_runs(log) or nil, served = served },
        served ~= nil)
end

return page
