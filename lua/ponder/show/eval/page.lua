--- Writes an evaluation as one self-contained page: the table, the curves, the items.

local json = require "ponder.json"
local messages = require "ponder.show.messages"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local reader = require "ponder.run.log.reader"
local standalone = require "ponder.show.standalone"
local style = require "ponder.show.style"
local tables = require "ponder.show.eval.table"
local trees = require "ponder.show.log.trees"

local page = {}

local MAX_TEXT_BYTES = 4000 -- of an answer, a question, a message
local FIELDS = { "policy", "id", "epoch", "outcome", "score", "answer", "target", "why", "code",
    "message", "samples", "calls", "tokens", "estimated_tokens", "cost", "estimated_cost",
    "seconds", "critical_seconds" }
local TEXTS = { "answer", "target", "why", "message" }

local MAX_RUNS_BYTES = 8 << 20 -- of all texts of runs
local PLAIN = style.of(1, { is_terminal = false, env = function() return "C.UTF-8" end,
    measure = function() return 120 end }) -- of trees

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

local function reply_of(reply)
    local texts = {}
    for i, sample in ipairs(type(reply) == "table" and reply.samples or {}) do
        texts[i] = type(sample.text) == "string" and sample.text or ""
    end
    return table.concat(texts, "\n---\n")
end

-- The runs of a log as {id, calls, tree}, by three lines: policy, item and epoch.
local function read_runs(path)
    local log <close> = reader.open(path)
    if not log then
        return nil
    end
    local all, left = {}, MAX_RUNS_BYTES
    local function take(text)
        local shown = short(quote.utf8(text))
        left = left - #shown
        return shown
    end
    for _, number in ipairs(log:numbers()) do
        local one = log:other(number)
        local labels, calls, tree = one:run().labels or {}, json.array {}, {}
        if left > 0 and labels.policy and labels.item and labels.epoch then
            for call in one:contents() do
                table.insert(calls, { model = call.model, status = call.status, cost = call.cost,
                    prompt = messages.prompt(call.request, take),
                    reply = take(reply_of(call.reply)) })
            end
            trees.draw(one, PLAIN, nil, function(line) tree[#tree + 1] = line end)
            all[("%s\n%s\n%d"):format(labels.policy, labels.item, labels.epoch)] = { id = number,
                calls = calls, tree = tree[1] and take(table.concat(tree, "\n")) }
        end
    end
    return all
end

local function row_of(record)
    local row = options.pick(record, FIELDS)
    for _, name in ipairs(TEXTS) do
        row[name] = row[name] ~= nil and short(row[name]) or nil
    end
    return row
end

---The page of a result.
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
        notes = json.array(tables.notes(result, true)), records = rows,
        questions = questions, runs = log and read_runs(log) or nil, served = served },
        served ~= nil)
end

return page
